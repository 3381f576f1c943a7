#include "admin/parked_deliveries.hpp"

#include "core/body_reference.hpp"
#include "core/recorded_delivery.hpp"
#include "core/text.hpp"
#include "postgres/faults.hpp"
#include "postgres/literal.hpp"
#include "postgres/stored_message.hpp"
#include "skald_queries.hpp"

#include <skald/errors.hpp>

#include <pqxx/pqxx>

#include <fmt/format.h>

namespace skald::admin {
namespace {

using nlohmann::json;
using postgres::execute;

// The type of the row that skald.record_unknown() writes.
constexpr std::string_view home_step = "skald.saga";

json common(pqxx::row const& row)
{
    json parked{{"id", row["id"].as<std::int64_t>()}, {"attempts", row["attempts"].as<int>()}};
    for (auto const* name : {"scope", "key", "step", "handler", "reason", "error", "type", "parked_at"})
        parked[name] = row[name].c_str();
    return parked;
}

// The record of a body that is kept apart from its message; nothing if it is in the message.
std::optional<json> kept_apart(pqxx::field const& reference)
{
    if (reference.is_null()) return std::nullopt;
    auto const read = core::parse_reference(reference.c_str());
    if (!read) return std::nullopt;
    return json{{"sha256", core::to_hex(read->fingerprint)}, {"bytes", read->size}, {"store", read->store}};
}

core::recorded_parking parking_of(pqxx::row const& row)
{
    core::recorded_parking p;
    p.id = row["id"].as<std::int64_t>();
    p.scope = row["scope"].c_str();
    p.key = row["key"].c_str();
    p.step = row["step"].c_str();
    p.reason = row["reason"].c_str();
    p.error = row["error"].c_str();
    p.attempts = row["attempts"].as<int>();
    p.parked_at = row["parked_at"].c_str();
    if (!row["record"].is_null())
        p.record = {row["record"].c_str(), row["record_attempts"].as<int>(), row["record_snoozes"].as<int>()};
    return p;
}

std::optional<std::string> refusal(pqxx::result const& rows)
{
    auto const why = rows[0]["refusal"];
    return why.is_null() ? std::nullopt : std::optional<std::string>{why.c_str()};
}

// For a catch block. What is in the way of one delivery, a scope that is too long, say, a body that is too large, or a
// transaction that holds its row, is its own refusal: its neighbours still can be. What is in the way of all of them is
// thrown on.
std::string obstacle(postgres::connection const& c, std::int64_t id, std::string_view verb)
try {
    throw;
}
catch (pqxx::broken_connection const&) {
    throw;
}
catch (pqxx::insufficient_privilege const&) {
    throw;
}
catch (std::exception const& error) {
    if (!c.is_open() || postgres::says_read_only()) throw;
    std::string_view const what{error.what()};
    return fmt::format("parked delivery {} can't be {}: {}", id, verb,
                       core::in_one_line(what.substr(0, what.find("\nCONTEXT:"))));
}

// What to do about a parked delivery, in a sentence. What it advises is not refused.
class adviser
{
public:
    explicit adviser(pqxx::row const& row)
        : row_{row}, reason_{row["reason"].c_str()}, record_{row["record"].c_str()},
          is_waited_for_{row["is_waited_for"].as<bool>()}, replay_{fmt::format("`skald parked replay {}`",
                                                                               row["id"].c_str())},
          drop_{
              fmt::format("`skald parked drop {} --reason TEXT{}`", row["id"].c_str(), is_waited_for_ ? " --yes" : "")}
    {}

    std::string advice() const
    {
        if (auto said = where_no_replay_helps(); !said.empty()) return said;
        if (reason_ == "malformed") return of_malformed();
        if (auto said = of_senders(); !said.empty()) return said;
        if (auto said = of_what_ran(); !said.empty()) return said;
        if (!row_["elsewhere"].is_null())
            return fmt::format(
                "By its itinerary {} runs this step, and a replay sends it to this service again. Correct what "
                "brought it here, and see that {} gets it; then {}.",
                row_["elsewhere"].c_str(), row_["elsewhere"].c_str(), drop_);
        if (reason_ == "unknown_step" && *row_["handler"].c_str() != '\0')
            return fmt::format(
                "Deploy a version of this service that has the message handler {}; then {}. If none will "
                "have it any more, {}.",
                row_["handler"].c_str(), replay_, drop_);
        if (reason_ == "unknown_step") return fmt::format("Deploy the service that hosts this step; then {}.", replay_);
        return fmt::format("Fix what the error says; then {}.", replay_);
    }

private:
    std::string replay_with(std::string_view option) const
    {
        return fmt::format("{} {}`", replay_.substr(0, replay_.size() - 1), option);
    }

    std::string where_no_replay_helps() const
    {
        if (record_ == "completed" || record_ == "rejected" || record_ == "cancelled")
            return fmt::format("Its step is {} by now: there is nothing to replay. {}.", record_, drop_);
        if (!row_["replayable"].as<bool>())
            return fmt::format(
                "It was parked more than 30 days ago, and no replay takes it: look up what has run, do or "
                "undo the rest by hand, pause and close its saga if it has one, and {}.",
                drop_);
        if (!row_["unsendable"].is_null())
            return fmt::format("It can't be sent again: {}. Its sender must send it anew, smaller; {}.",
                               row_["unsendable"].c_str(), drop_);
        if (reason_ == "unknown_saga" && row_["type"].c_str() == home_step)
            return fmt::format(
                "Check that this is the database in which the saga was started. This only says that a step of "
                "it ran here, and is no message that could be sent again: {}.",
                drop_);
        if (record_ == "started" || record_ == "unknown")
            return "Its step is under way, and how that ends counts: there is nothing to replay meanwhile.";
        if (row_["is_refused"].as<bool>() && reason_ != "mismatch")
            return fmt::format("Its headers name no step of a saga, and a replay of it is refused: fix its sender, "
                               "and {}.",
                               drop_);
        return {};
    }

    std::string of_malformed() const
    {
        if (*row_["handler"].c_str() != '\0')
            return fmt::format(
                "A replay sends it as it came. If its handler reads it wrongly, deploy one that reads it; then {}. "
                "Otherwise its sender must send it again as it should be; {}.",
                replay_, drop_);
        if (row_["attempts"].as<int>() == 0)
            return fmt::format(
                "A replay sends it as it came, and this version parks it again. Correct its sender, or what changed it "
                "on its way, and have the right message sent{}; {}.",
                is_waited_for_ ? "; or close its saga, which waits for it. Then" : ". This one is of no more use:",
                drop_);
        return fmt::format(
            "Its saga is stuck until its step can read it. If it is of an older version, deploy a step that reads that "
            "(a default, std::optional or an upcast: docs/change.md), which `--check-stored` of the service's program "
            "tries; then {}. If its sender is wrong, correct that, cancel or close the saga, and {}.",
            replay_, drop_);
    }

    std::string of_senders() const
    {
        if (reason_ == "unsigned")
            return fmt::format(
                "It has no signature, and anyone who may publish can have made it: find out who did. If it is genuine, "
                "{} signs and sends it; otherwise {}.",
                replay_with("--vouch"), drop_);
        if (reason_ == "forged")
            return fmt::format("Its signature is not valid. If a key was missing here, add it, and {} sends "
                               "it as it came, to be checked again; otherwise find out who sent it. {}.",
                               replay_with("--yes"), drop_);
        if (reason_ == "mismatch")
            return fmt::format("Its key was used before with another body, or by another home: fix the sender. {}.",
                               drop_);
        if (reason_ == "unknown_saga")
            return fmt::format(
                "Check that this is the database in which the saga was started. A report of it can be sent again "
                "then ({}); what belongs to a saga that is over can be dropped ({}).",
                replay_, drop_);
        if (reason_ == "no_key")
            return fmt::format(
                "It has no key where its message handler looks for one. If others like it come, correct their "
                "sender, and drop it ({}); or deploy a handler that finds one, then {}.",
                drop_, replay_);
        return {};
    }

    std::string of_what_ran() const
    {
        if (reason_ == "transaction_ended")
            return fmt::format(
                "Its step ran COMMIT or ROLLBACK itself: check what it wrote, repair that, and take it out of "
                "the step; then {}.",
                replay_with("--yes"));
        if (reason_ == "delivery_limit")
            return fmt::format("It came back too often: find out whether it kills its worker, and fix that; then {}.",
                               replay_);
        if (reason_ == "closed")
            return fmt::format(
                "Its saga was closed by an operator, and it was not run: check that what it would have done is "
                "done or undone. {}.",
                drop_);
        if (reason_ == "body_missing" || reason_ == "body_damaged")
            return fmt::format("Bring the body back to where the error says, from a backup, say; then {}.", replay_);
        return {};
    }

    pqxx::row const& row_;
    std::string reason_;
    std::string record_;
    bool is_waited_for_;
    std::string replay_;
    std::string drop_;
};

}  // namespace

json list_parked(postgres::connection& c, parked_filter const& filter)
{
    auto const rows = c.run(execute(queries::list_parked{.reason = filter.reason,
                                                         .scope = filter.scope,
                                                         .key = filter.key,
                                                         .step = filter.step,
                                                         .after = filter.after,
                                                         .rows_max = std::int64_t{filter.limit} + 1}));
    json page{{"parked", json::array()}, {"next", nullptr}};
    for (auto const& row : rows) {
        if (page["parked"].size() == static_cast<std::size_t>(filter.limit)) {
            page["next"] = page["parked"].back()["id"];
            break;
        }
        page["parked"].push_back(common(row));
        auto const kept = kept_apart(row["kept"]);
        page["parked"].back()["body_bytes"] = kept ? kept->at("bytes") : json(row["body_bytes"].as<int>());
    }
    return page;
}

std::optional<std::int64_t> newest_parked(postgres::connection& c)
{
    auto const rows = c.run(execute("newest_parked"));
    auto const id = rows[0]["id"];
    return id.is_null() ? std::nullopt : std::optional{id.as<std::int64_t>()};
}

std::optional<json> show_parked(postgres::connection& c, std::int64_t id)
{
    auto const rows = c.run(execute(queries::show_parked{.id = id}));
    if (rows.empty()) return std::nullopt;
    auto const& row = rows[0];
    auto parked = common(row);
    parked["message_id"] = row["message_id"].c_str();
    parked["content_type"] = row["content_type"].c_str();
    parked["headers"] = json::parse(row["headers"].c_str());
    auto const body = core::from_hex(row["body"].c_str());
    if (auto const kept = kept_apart(row["kept"])) parked["kept_body"] = *kept;
    else if (core::is_storable_text(body)) parked["body"] = body;
    else parked["body_hex"] = row["body"].c_str();
    parked["record"] = row["record"].is_null() ? json(nullptr) : json(row["record"].c_str());
    parked["advice"] = adviser{row}.advice();
    return parked;
}

std::optional<std::string> record_parked(postgres::connection& c, std::int64_t id)
{
    auto const rows = c.run(execute(queries::recorded_parked{.id = id}));
    if (rows.empty()) return std::nullopt;
    auto const& row = rows[0];
    if (row["destination"].is_null())
        throw configuration_error{
            "this database does not say which service it belongs to, so that a recording could not say "
            "where to deliver it: run `skald migrate --service NAME`"};
    return core::write_recorded(postgres::message_of(row), parking_of(row));
}

std::optional<std::string> replay_parked(postgres::connection& c, std::int64_t id, std::string const& by, bool forced,
                                         bool vouched, std::string const& why)
try {
    return refusal(
        c.run(execute(queries::replay_parked{.id = id, .by = by, .forced = forced, .vouched = vouched, .why = why})));
}
catch (std::exception const&) {
    return obstacle(c, id, "replayed");
}

std::optional<std::string> drop_parked(postgres::connection& c, std::int64_t id, std::string const& why,
                                       std::string const& by, bool forced)
try {
    return refusal(c.run(execute(queries::drop_parked{.id = id, .reason = why, .by = by, .forced = forced})));
}
catch (std::exception const&) {
    return obstacle(c, id, "dropped");
}

}  // namespace skald::admin
