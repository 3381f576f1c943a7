#include "rehearsal/source.hpp"

#include "core/body_reference.hpp"
#include "core/envelope.hpp"
#include "core/shell_word.hpp"
#include "postgres/stored_message.hpp"
#include "skald_rehearsal_queries.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>
#include <pqxx/pqxx>

#include <algorithm>

namespace skald::rehearsal {
namespace {

using postgres::filled_in;
using postgres::message_of;
namespace queries = rehearsal_queries;

// Not this service: it would miss the saga's row.
constexpr char const* unknown_home = "elsewhere";

class source_finder
{
public:
    source_finder(postgres::connection& c, wanted const& what, std::string const& service,
                  std::span<hosted_plan const> plans)
        : connection_{c}, what_{what}, service_{service}, plans_{plans}, step_{what.key.guarded_step()}
    {}

    source find()
    {
        check_owner();
        refuse_handler();
        find_record();
        auto found = what_.data ? std::optional<source>{} : parked();
        if (!found && !what_.data) found = waiting();
        if (!found && !refusal_.empty())
            throw configuration_error{fmt::format("{}. --data FILE rehearses the step with other data", refusal_)};
        if (!found) found = made_up();
        add_end_of_saga(*found);
        if (is_decided()) {
            found->preparation += undecide();
            found->notes.push_back(fmt::format("{}. It is run here as if it were not; a delivery of it would be a "
                                               "duplicate and do nothing",
                                               decision()));
        }
        return *std::move(found);
    }

private:
    template <class Statement>
    pqxx::result ask() const
    {
        return connection_.run(filled_in(Statement{.scope = what_.scope, .key = what_.key.key, .step = step_}));
    }

    std::string undecide() const
    {
        return filled_in(queries::undecide{.scope = what_.scope, .key = what_.key.key, .step = step_});
    }

    void check_owner() const
    {
        auto const rows = connection_.run(std::string{queries::owner});
        std::string const owner = rows.empty() ? "no service" : rows[0]["name"].c_str();
        if (owner != service_)
            throw configuration_error{
                fmt::format("this is the database of {}, and not of {}: check DATABASE_URL", owner, service_)};
    }

    void refuse_handler() const
    {
        if (std::ranges::any_of(plans_, [this](auto const& one) { return is_hosted(one) && one.definition.empty(); }))
            throw configuration_error{fmt::format("{} is a message handler: only steps are rehearsed", what_.key.step)};
    }

    // What a compensation undoes must have ended too.
    void find_record()
    {
        read_record(what_.key.step);
        if (status_ == "started" || status_ == "unknown")
            throw configuration_error{fmt::format(
                "{} has begun since {}: its first transaction is committed, and what it waits for is in `skald started "
                "list --key {}`",
                core::derived_key{what_.key.key, what_.key.step, core::direction::forward}.text(), since_,
                core::shell_word(what_.key.key))};
        if (step_ != what_.key.step) read_record(step_);
    }

    void read_record(std::string const& step)
    {
        auto const rows = connection_.run(
            filled_in(queries::record_of_step{.scope = what_.scope, .key = what_.key.key, .step = step}));
        status_ = rows.empty() ? "" : rows[0]["status"].c_str();
        since_ = rows.empty() ? "" : rows[0]["at"].c_str();
    }

    bool is_decided() const { return status_ == "completed" || status_ == "rejected" || status_ == "cancelled"; }

    std::string decision() const { return fmt::format("the step is decided: {} since {}", status_, since_); }

    void add_end_of_saga(source& found) const
    {
        auto const rows = connection_.run(filled_in(queries::end_of_saga{.scope = what_.scope, .key = what_.key.key}));
        if (rows.empty()) return;
        found.saga_ended = rows[0]["status"].c_str();
        found.notes.push_back(fmt::format("the saga has ended: it is {} since {}, and stays so, whatever the step does",
                                          found.saga_ended, rows[0]["at"].c_str()));
    }

    // As after `skald parked replay`: with the next fencing token, and its attempts counted from scratch. One that can
    // not be replayed is not rehearsed either.
    std::optional<source> parked()
    {
        auto const rows = ask<queries::parked_of_step>();
        if (rows.empty()) return {};
        auto const id = rows[0]["id"].as<std::int64_t>();
        if (!rows[0]["refusal"].is_null()) {
            refusal_ = rows[0]["refusal"].c_str();
            return {};
        }
        source found{message_of(rows[0]), fmt::format("parked delivery {}", id), {}, {}, {}};
        if (is_decided()) return found;
        auto const put_back = filled_in(queries::put_back{.id = id});
        auto const replayed =
            connection_.run("BEGIN READ WRITE;" + put_back +
                            filled_in(queries::replayed_message{.scope = what_.scope, .message_id = what_.key.text()}));
        if (!replayed.empty()) found.message = message_of(replayed[0]);
        connection_.run("ROLLBACK");
        found.preparation = put_back;
        found.notes.push_back(fmt::format("as after `skald parked replay {}{}`; it was parked as {}", id,
                                          rows[0]["option"].c_str(), rows[0]["reason"].c_str()));
        return found;
    }

    std::optional<source> waiting() const
    {
        auto const rows =
            connection_.run(filled_in(queries::waiting_of_step{.scope = what_.scope, .message_id = what_.key.text()}));
        if (rows.empty()) return {};
        return source{message_of(rows[0]),
                      fmt::format("row {} of the outbox, due {}", rows[0]["id"].c_str(), rows[0]["due_at"].c_str()),
                      {},
                      {},
                      {}};
    }

    // No copy of the message is left, so one is written as the step before it would have.
    source made_up() const
    {
        auto const rows = connection_.run(filled_in(queries::saga_of_step{.scope = what_.scope, .key = what_.key.key}));
        if (!what_.data && rows.empty()) throw configuration_error{why_without_data()};
        core::envelope e;
        e.saga = {what_.scope, what_.key.key};
        plan(e, rows);
        auto const homes =
            connection_.run(filled_in(queries::home_of_saga{.scope = what_.scope, .key = what_.key.key}));
        e.home = homes.empty() ? unknown_home : homes[0]["home"].c_str();
        source made{
            core::write_message(e, what_.data ? *what_.data : std::string{rows[0]["data"].c_str()}), {}, {}, {}, {}};
        if (auto const kept = what_.data ? std::nullopt : core::parse_reference(rows[0]["kept"].c_str()))
            core::refer(made.message, *kept);
        made.from =
            what_.data ? "the data given with --data" : "the saga's row, which has the data that it started with";
        if (!what_.data)
            made.notes.emplace_back(
                "what earlier steps have changed in the data is not in it; --data FILE gives other data");
        if (homes.empty())
            made.notes.push_back(
                fmt::format("the saga's home is not known here: what is reported to it goes to `{}`", unknown_home));
        if (!is_decided() && !status_.empty()) made.preparation = undecide();
        made.notes.emplace_back("no message of the step is here: this one says attempt 1, and has no deadline");
        return made;
    }

    bool is_hosted(hosted_plan const& one) const { return one.step == what_.key.step; }

    std::string why_without_data() const
    {
        if (std::ranges::none_of(plans_, [this](auto const& one) { return is_hosted(one); }))
            return fmt::format("{} hosts no step {}, and no message of {} is in this database", service_,
                               what_.key.step, what_.key.text());
        if (is_decided())
            return fmt::format("{}: {}. The data that it ran with is gone with its message; --data FILE gives it data "
                               "to be rehearsed with",
                               what_.key.text(), decision());
        return fmt::format("no message of {} is in this database, neither parked nor waiting to be sent, and the saga "
                           "was started elsewhere. A message that waits in the queue can't be read from here. "
                           "--data FILE gives the step its data",
                           what_.key.text());
    }

    void plan(core::envelope& e, pqxx::result const& saga) const
    {
        if (!saga.empty()) {
            e.definition = saga[0]["definition"].c_str();
            e.version = saga[0]["version"].as<int>();
            if (auto read = core::parse_itinerary(saga[0]["itinerary"].c_str())) e.itinerary = *std::move(read);
        }
        else {
            auto const hosts = [this](auto const& one) { return is_hosted(one); };
            auto const one = std::ranges::find_if(plans_, hosts);
            if (one == plans_.end() || std::ranges::count_if(plans_, hosts) > 1)
                throw configuration_error{
                    fmt::format("{} hosts {} with the name {}, and nothing here says of which definition it is",
                                service_, one == plans_.end() ? "no step" : "several steps", what_.key.step)};
            e.definition = one->definition;
            e.version = one->version;
            e.itinerary = core::make_itinerary(one->plan);
        }
        auto const step = std::ranges::find(e.itinerary.steps, what_.key.step, &core::itinerary_step::name);
        if (step == e.itinerary.steps.end())
            throw configuration_error{
                fmt::format("the saga {} ({}) has no step {}", what_.key.key, e.definition, what_.key.step)};
        if (step->service != service_)
            throw configuration_error{fmt::format("{} is a step of {}: rehearse it there", step->name, step->service)};
        if (what_.key.direction == core::direction::back && step->kind != step_kind::compensatable)
            throw configuration_error{
                fmt::format("{} can't be undone: it is {}", step->name,
                            step->kind == step_kind::pivot ? "the pivot" : "a retriable step, after the pivot")};
        e.itinerary.position = {what_.key.direction, static_cast<std::size_t>(step - e.itinerary.steps.begin())};
    }

    postgres::connection& connection_;
    wanted const& what_;
    std::string const& service_;
    std::span<hosted_plan const> plans_;
    std::string const step_;
    std::string status_;
    std::string since_;
    std::string refusal_;  // why its parked delivery can't be sent again
};

}  // namespace

source find_source(postgres::connection& c, wanted const& what, std::string const& service,
                   std::span<hosted_plan const> plans)
{
    return source_finder{c, what, service, plans}.find();
}

}  // namespace skald::rehearsal
