#include "admin/stored_sagas.hpp"

#include "postgres/literal.hpp"
#include "postgres/stored_message.hpp"
#include "runtime/task.hpp"
#include "runtime/upcasting.hpp"
#include "skald_version_queries.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>
#include <pqxx/pqxx>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace skald::admin {
namespace {

namespace vq = version_queries;

constexpr std::int64_t page_rows = 1'000;
constexpr auto no_limit = std::numeric_limits<std::int64_t>::max();

// Of a part.
constexpr std::int64_t at_either_end = 20'000, of_each_version = 100, read_most = 2'000;

// Why the step could not read it; empty if it can.
std::string why_unreadable(runtime::step_message const& m, std::string_view body)
try {
    runtime::read_for_run(m, body);
    return {};
}
catch (std::exception const& error) {
    return error.what();
}

std::string_view name_of(stored_place place)
{
    constexpr std::array<std::string_view, 3> names{"saga under way", "started step", "message in the outbox"};
    return names.at(static_cast<std::size_t>(place));
}

template <class Found>
std::string counted(Found const& one)
{
    constexpr std::array<std::string_view, 3> all{"sagas under way that were started here", "started steps",
                                                  "messages in the outbox"};
    auto const least = one.is_at_least ? "at least " : "";
    if (one.count == 1) return fmt::format("{}1 {}", least, name_of(one.place));
    return fmt::format("{}{} {}", least, one.count, all.at(static_cast<std::size_t>(one.place)));
}

class examination
{
public:
    examination(postgres::connection& c, std::string_view service, runtime::registry const& steps, stored_extent extent)
        : connection_{c}, service_{service}, steps_{steps}, takes_all_{extent == stored_extent::all}
    {}

    stored_findings run()
    {
        examine_plans();
        if (takes_all_) examine_all_data();
        else examine_some_data();
        bool const read_all = found_.is_all && found_.read + found_.apart >= found_.plans;
        examine_messages();
        for (auto& one : found_.missing) one.is_at_least = !found_.is_all;
        for (auto& one : found_.unreadable) one.is_at_least = !read_all;
        return std::move(found_);
    }

private:
    void examine_plans()
    {
        auto const statement = takes_all_ ? std::string{vq::stored_plans}
                                          : postgres::filled_in(vq::stored_plans_at_ends{.either_end = at_either_end});
        for (auto const& row : connection_.run(statement)) {
            found_.plans += row["sagas"].as<std::int64_t>();
            auto const plan = core::parse_itinerary(row["itinerary"].c_str());
            if (!plan) continue;
            for (auto const& step : plan->steps)
                if (step.service == service_ && steps_.find(row["definition"].c_str(), step.name) == nullptr)
                    add_missing({row["definition"].c_str(), row["version"].as<int>(), step.name,
                                 row["sagas"].as<std::int64_t>(), stored_place::saga, row["key"].c_str()});
        }
        found_.is_all = takes_all_ || found_.plans < 2 * at_either_end;
    }

    void examine_all_data()
    {
        std::string created_at = "-infinity", scope, key;
        for (;;) {
            auto const rows = connection_.run(postgres::filled_in(
                vq::stored_data{.created_at = created_at, .scope = scope, .key = key, .most = page_rows}));
            for (auto const& row : rows) examine_saga(row);
            if (static_cast<std::int64_t>(rows.size()) < page_rows) return;
            auto const& last = rows[rows.size() - 1];
            created_at = last["created_at"].c_str(), scope = last["scope"].c_str(), key = last["key"].c_str();
        }
    }

    void examine_some_data()
    {
        auto const rows = connection_.run(postgres::filled_in(
            vq::stored_sample{.either_end = at_either_end, .each = of_each_version, .most = read_most}));
        for (auto const& row : rows) examine_saga(row);
    }

    void examine_saga(pqxx::row const& row)
    {
        if (row["is_apart"].as<bool>()) {
            ++found_.apart;
            return;
        }
        ++found_.read;
        auto const plan = core::parse_itinerary(row["itinerary"].c_str());
        if (!plan) return;
        for (auto const& step : plan->steps) {
            runtime::step_message m{};
            m.envelope.saga = {row["scope"].c_str(), row["key"].c_str()};
            m.envelope.definition = row["definition"].c_str();
            m.envelope.version = row["version"].as<int>();
            m.hosted = steps_.find(m.envelope.definition, step.name, m.envelope.version);
            if (step.service == service_) examine_body(m, step.name, row["data"].c_str(), stored_place::saga);
        }
    }

    void examine_messages()
    {
        auto const rows = connection_.run(postgres::filled_in(vq::stored_messages{
            .most = takes_all_ ? no_limit : read_most, .either_end = takes_all_ ? no_limit : at_either_end}));
        for (auto const& row : rows) {
            ports::delivery d;
            d.message = postgres::message_of(row);
            auto const body = d.message.body;
            auto const t = runtime::route(std::move(d), service_, steps_);
            auto const* const m = t.step();
            auto const place = row["is_started"].as<bool>() ? stored_place::started : stored_place::outbox;
            if (m == nullptr || t.kept) continue;
            ++found_.read;
            auto const& step = m->envelope.itinerary.current().name;
            if (m->hosted == nullptr)
                add_missing({m->envelope.definition, m->envelope.version, step, 1, place, m->envelope.saga.key});
            else examine_body(*m, step, body, place);
        }
    }

    void examine_body(runtime::step_message const& m, std::string const& step, std::string_view body,
                      stored_place place)
    {
        // A newer process reads what is newer, and a step that is not hosted is a finding of its own.
        if (m.hosted == nullptr || m.envelope.version > m.hosted->version) return;
        auto why = why_unreadable(m, body);
        if (why.empty()) return;
        auto const is_same = [&](unreadable_data const& one) {
            return one.definition == m.envelope.definition && one.version == m.envelope.version && one.step == step &&
                   one.place == place;
        };
        auto const it = std::ranges::find_if(found_.unreadable, is_same);
        if (it != found_.unreadable.end()) ++it->count;
        else
            found_.unreadable.push_back(
                {m.envelope.definition, m.envelope.version, step, 1, place, m.envelope.saga.key, std::move(why)});
    }

    void add_missing(missing_step one)
    {
        one.is_from_future = one.version > steps_.known_version(one.definition);
        auto const is_same = [&](missing_step const& other) {
            return other.definition == one.definition && other.version == one.version && other.step == one.step &&
                   other.place == one.place;
        };
        auto const it = std::ranges::find_if(found_.missing, is_same);
        if (it != found_.missing.end()) it->count += one.count;
        else found_.missing.push_back(std::move(one));
    }

    postgres::connection& connection_;
    std::string_view service_;
    runtime::registry const& steps_;
    bool takes_all_;
    stored_findings found_;
};

}  // namespace

bool stored_findings::is_well() const
{
    return unreadable.empty() && std::ranges::all_of(missing, &missing_step::is_from_future);
}

stored_findings check_stored(postgres::connection& c, std::string_view service, runtime::registry const& steps,
                             stored_extent extent)
{
    return examination{c, service, steps, extent}.run();
}

std::string in_words(missing_step const& one)
{
    auto const what = fmt::format("{} version {}: step {} is needed by {}, one of them {}, and this process does not "
                                  "host it",
                                  one.definition, one.version, one.step, counted(one), one.key);
    if (one.is_from_future) return what + "; a newer version of the service does";
    return what + fmt::format("; keep it, with .retired({}) in the newest definition and host(), until `skald saga "
                              "versions` shows none of version {}",
                              one.step, one.version);
}

std::string in_words(unreadable_data const& one)
{
    return fmt::format("{} version {}: step {} can't read the data of {}, and would park them as malformed; of {} it "
                       "says: {}. Give the member a default, or the definition an upcast (docs/change.md)",
                       one.definition, one.version, one.step, counted(one), one.key, one.error);
}

nlohmann::json to_json(stored_findings const& found)
{
    using nlohmann::json;
    json all{{"plans", found.plans},       {"read", found.read},      {"kept_apart", found.apart},
             {"is_all", found.is_all},     {"well", found.is_well()}, {"missing", json::array()},
             {"unreadable", json::array()}};
    for (auto const& one : found.missing) {
        all["missing"].push_back({{"definition", one.definition},
                                  {"version", one.version},
                                  {"step", one.step},
                                  {"count", one.count},
                                  {"place", name_of(one.place)},
                                  {"key", one.key},
                                  {"is_from_future", one.is_from_future}});
    }
    for (auto const& one : found.unreadable) {
        all["unreadable"].push_back({{"definition", one.definition},
                                     {"version", one.version},
                                     {"step", one.step},
                                     {"count", one.count},
                                     {"place", name_of(one.place)},
                                     {"key", one.key},
                                     {"error", one.error}});
    }
    return all;
}

}  // namespace skald::admin
