#include "saga_story.hpp"

#include "admin/started_steps.hpp"
#include "audit_log.hpp"
#include "core/reasons.hpp"
#include "core/text.hpp"
#include "deliveries_seen.hpp"
#include "postgres/literal.hpp"
#include "skald_console_queries.hpp"

#include <skald/detail/data.hpp>
#include <skald/errors.hpp>

#include <pqxx/pqxx>

#include <algorithm>

namespace skald::console {
namespace {

using core::step_status;
using nlohmann::json;
using postgres::filled_in;

constexpr std::int64_t outbox_examined_max = 20'000;

std::string compensation_of(std::string const& step)
{
    return step + std::string{core::compensate_suffix};
}

run::state state_of(std::string_view status)
{
    if (status == "completed") return run::state::done;
    if (status == "rejected") return run::state::rejected;
    if (status == "parked") return run::state::parked;
    if (status == "cancelled") return run::state::cancelled;
    if (status == "retrying") return run::state::retrying;
    if (status == "unknown") return run::state::unknown;
    return run::state::running;
}

// What the home was told; what the service itself says replaces it.
run told(std::optional<admin::step_record> const& record)
{
    run made;
    if (!record) return made;
    made.is = state_of(core::name_of(record->status));
    made.attempts = record->attempts;
    made.error = record->error;
    made.at = record->at;
    return made;
}

std::vector<station> stations_of(admin::saga_facts const& facts)
{
    std::vector<station> stations;
    for (auto const& step : facts.steps) {
        station one{step.name, step.service, step.kind, told(step.record), std::nullopt};
        if (step.compensation) one.back = told(step.compensation);
        stations.push_back(std::move(one));
    }
    return stations;
}

// The step, or the compensation, of that name at that service. A compensation that no one has told of yet is added.
run* find_run(std::vector<station>& stations, std::string const& service, std::string const& name)
{
    for (auto& one : stations) {
        if (one.service != service) continue;
        if (one.step == name) return &one.forward;
        if (compensation_of(one.step) != name) continue;
        if (!one.back) one.back.emplace();
        return &*one.back;
    }
    return nullptr;
}

void read_records(saga_story& story, std::string const& service, postgres::connection& c)
{
    auto const& id = story.facts.id;
    auto const counted = deliveries_seen(c, id, story.home);
    for (auto const& row :
         c.run(filled_in(queries::records_of_saga{.scope = id.scope, .key = id.key, .home = story.home}))) {
        auto* const found = find_run(story.stations, service, row["step"].c_str());
        if (found == nullptr) continue;
        found->is = state_of(row["status"].c_str());
        found->attempts = row["attempts"].as<int>();
        found->snoozes = row["snoozes"].as<int>();
        found->error = row["error"].c_str();
        found->first_at = core::parse_instant(row["first_at"].c_str());
        found->at = core::parse_instant(row["at"].c_str());
        found->is_first_hand = true;
        if (!counted) continue;
        // Only what came more than once is counted: of all else the record itself says how often it came.
        auto const it = counted->find(row["step"].c_str());
        found->delivered = it == counted->end() ? found->attempts + found->snoozes : it->second;
    }
}

// Nothing if it is no JSON that Skald accepts: nesting without a bound would overflow the stack.
std::optional<json> data_in(std::string const& text)
try {
    return detail::parse_checked(text);
}
catch (data_error const&) {
    return std::nullopt;
}

void read_messages(saga_story& story, std::string const& service, postgres::connection& c)
{
    auto const& id = story.facts.id;
    for (auto const& row : c.run(filled_in(queries::messages_of_saga{
             .examined_max = outbox_examined_max, .scope = id.scope, .key = id.key, .home = story.home}))) {
        auto* const found = find_run(story.stations, row["destination"].c_str(), row["type"].c_str());
        if (found == nullptr) continue;
        found->message = message_place{.where = message_place::kind::outbox,
                                       .service = service,
                                       .error = row["error"].c_str(),
                                       .since = core::parse_instant(row["at"].c_str()).value(),
                                       .waits = row["waits"].as<bool>(),
                                       .data = data_in(core::from_hex(row["body"].c_str())),
                                       .kept = row["kept"].c_str()};
    }
}

void read_parked(saga_story& story, std::string const& service, postgres::connection& c)
{
    auto const& id = story.facts.id;
    for (auto const& row :
         c.run(filled_in(queries::parked_of_saga{.scope = id.scope, .key = id.key, .home = story.home}))) {
        auto* const found = find_run(story.stations, service, row["step"].c_str());
        if (found == nullptr) continue;
        found->message = message_place{.where = message_place::kind::parked,
                                       .service = service,
                                       .error = row["error"].c_str(),
                                       .reason = row["reason"].c_str(),
                                       .since = core::parse_instant(row["at"].c_str()).value(),
                                       .parked_id = row["id"].as<std::int64_t>(),
                                       .data = data_in(core::from_hex(row["body"].c_str())),
                                       .kept = row["kept"].c_str()};
    }
}

void read_started(saga_story& story, std::string const& service, postgres::connection& c)
{
    auto const& id = story.facts.id;
    auto const page = admin::list_started(c, {.key = id.key, .scope = id.scope});
    for (auto const& one : page["started"]) {
        auto* const found = find_run(story.stations, service, one["step"]);
        if (found == nullptr) continue;
        found->waits_for = one["waits_for"];
        found->is_in_doubt = one["in_doubt"] && (!one["is_answered"] || one["tries"] > 0);
    }
}

void read_command(saga_story const& story, lane& of, postgres::connection& c)
{
    auto const& id = story.facts.id;
    auto const rows = c.run(filled_in(queries::command_of_saga{.scope = id.scope, .key = id.key, .home = story.home}));
    if (rows.empty()) return;
    of.command = admin::command_facts{rows[0]["action"].c_str(), rows[0]["by"].c_str(), rows[0]["reason"].c_str(),
                                      core::parse_instant(rows[0]["at"].c_str()).value()};
}

void read_lane(saga_story& story, lane& of, database& db)
try {
    db.ask([&](postgres::connection& c) {
        read_records(story, of.service, c);
        read_messages(story, of.service, c);
        read_parked(story, of.service, c);
        read_started(story, of.service, c);
        read_command(story, of, c);
        auto const rows = audit_of(c, of.service, story.facts.id);
        story.audit.insert(story.audit.end(), rows.begin(), rows.end());
        return 0;
    });
}
catch (away const& why) {
    of.why_away = why.what();
    of.kind = why.kind;
}

// In the order in which the plan comes to them; the home too, if no step is there.
std::vector<lane> lanes_of(saga_story const& story, databases const& all)
{
    std::vector<lane> lanes;
    auto const add = [&](std::string const& service) {
        bool const is_known = std::ranges::any_of(lanes, [&](auto const& l) { return l.service == service; });
        if (!is_known) lanes.push_back({service, all.find(service) != nullptr, {}, std::nullopt});
    };
    for (auto const& one : story.stations) add(one.service);
    return lanes;
}

bool has_ended(admin::saga_facts const& facts)
{
    return facts.finished_at.has_value();
}

// Which step comes next, and which never will: what no database says of itself.
void mark_future(saga_story& story)
{
    auto const goes_back = std::ranges::any_of(story.stations, [](auto const& s) {
        return s.back || s.forward.is == run::state::rejected || s.forward.is == run::state::cancelled;
    });
    for (auto& one : story.stations)
        if (one.forward.is == run::state::pending && (goes_back || has_ended(story.facts)))
            one.forward.is = run::state::never;
    if (has_ended(story.facts)) return;
    if (!goes_back) {
        auto const next =
            std::ranges::find_if(story.stations, [](auto const& s) { return s.forward.is != run::state::done; });
        if (next != story.stations.end()) next->forward.is_next = true;
        return;
    }
    for (auto i = story.stations.size(); i-- > 0;) {
        auto* const one = &story.stations[i];
        bool const was_done = one->forward.is == run::state::done;
        if (!was_done && !one->back) continue;
        if (!one->back) one->back.emplace();
        if (one->back->is == run::state::done || one->back->is == run::state::cancelled) continue;
        one->back->is_next = true;
        break;
    }
    // What will be undone after that.
    for (auto& one : story.stations)
        if (one.forward.is == run::state::done && !one.back) one.back.emplace();
}

}  // namespace

std::optional<saga_story> tell_saga(databases const& all, std::string const& home, core::saga_id const& id)
{
    auto* const db = all.find(home);
    if (db == nullptr) throw away{home, "this console was not given the address of " + home, away::how::not_reached};
    saga_story story;
    story.home = home;
    bool const is_known = db->ask([&](postgres::connection& c) {
        auto const found = admin::find_saga(c, id);
        if (!found) return false;
        story.facts = *found;
        // A purge may have taken it between the two.
        auto const rows = c.run(filled_in(queries::start_of_saga{.scope = id.scope, .key = id.key}));
        if (rows.empty()) return false;
        auto const& start = rows[0];
        story.version = start["version"].c_str();
        story.text = start["data"].c_str();
        story.data = data_in(story.text);
        story.attributes = json::parse(start["attributes"].c_str());
        return true;
    });
    if (!is_known) return std::nullopt;
    story.sentence = admin::explain(story.facts);
    story.stations = stations_of(story.facts);
    story.lanes = lanes_of(story, all);
    for (auto& one : story.lanes)
        if (auto* const of_lane = all.find(one.service)) read_lane(story, one, *of_lane);
    bool const has_lane = std::ranges::any_of(story.lanes, [&](auto const& l) { return l.service == home; });
    if (!has_lane) {
        lane aside{home, true, {}, std::nullopt};
        read_lane(story, aside, *db);
    }
    mark_future(story);
    std::ranges::sort(story.audit, [](auto const& a, auto const& b) { return a.at > b.at; });
    return story;
}

std::vector<std::string> homes_of(databases const& all, core::saga_id const& id, std::vector<away>& missing)
{
    std::vector<std::string> homes;
    for (auto const& db : all.all()) {
        try {
            bool const is_home = db->ask([&](postgres::connection& c) {
                return !c.run(filled_in(queries::start_of_saga{.scope = id.scope, .key = id.key})).empty();
            });
            if (is_home) homes.push_back(db->service());
        }
        catch (away const& why) {
            missing.push_back(why);
        }
    }
    return homes;
}

std::vector<std::pair<std::string, std::pair<std::string, std::string>>> changes(json const& start, json const& now)
{
    std::vector<std::pair<std::string, std::pair<std::string, std::string>>> found;
    auto const before = start.flatten(), after = now.flatten();
    for (auto const& [path, value] : after.items())
        if (auto const it = before.find(path); it == before.end() || *it != value)
            found.push_back({path, {it == before.end() ? std::string{} : it->dump(), value.dump()}});
    for (auto const& [path, value] : before.items())
        if (!after.contains(path)) found.push_back({path, {value.dump(), {}}});
    return found;
}

}  // namespace skald::console
