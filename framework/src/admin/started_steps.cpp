#include "admin/started_steps.hpp"

#include "postgres/literal.hpp"
#include "skald_queries.hpp"

#include <fmt/format.h>
#include <pqxx/pqxx>

namespace skald::admin {
namespace {

using nlohmann::json;

std::string times(int n)
{
    return n == 1 ? "once" : fmt::format("{} times", n);
}

// A call is in doubt from when it was taken to be made; one that was asked about, or that nobody has, has been made.
std::string waits_for(json const& s)
{
    int const calls = s["calls"], looks = s["looks"], tries = s["tries"];
    std::string const called =
        s["dependency"].get<std::string>().empty() ? "" : " of " + s["dependency"].get<std::string>();
    if (tries > 0) return fmt::format("its end to be recorded, which failed {}", times(tries));
    if (s["is_answered"]) return "its end to be recorded";
    if (s["kind"] == "wait")
        return s["due_in_seconds"] < 0 ? "a process of its service: its time has come" : "a signal, or its time";
    if (s["status"] == "unknown")
        return fmt::format("somebody who knows what its call{} has done; the other side was asked {}", called,
                           times(looks));
    if (!s["owner"].get<std::string>().empty()) return fmt::format("its call{}, made {}, to end", called, times(calls));
    if (s["in_doubt"]) return fmt::format("an answer to what its call{} has done", called);
    return fmt::format("its call{} to be made{}", called, calls == 0 ? "" : " again");
}

json started_step_of(pqxx::row const& row)
{
    json s = json::object();
    for (auto const* name :
         {"key", "scope", "step", "status", "kind", "dependency", "owner", "since", "due_at", "error"})
        s[name] = row[name].c_str();
    for (auto const* name : {"fence", "calls", "looks", "tries"}) s[name] = row[name].as<int>();
    for (auto const* name : {"age_seconds", "due_in_seconds"}) s[name] = row[name].as<std::int64_t>();
    for (auto const* name : {"in_doubt", "is_answered", "is_paused"}) s[name] = row[name].as<bool>();
    s["until"] = row["until"].is_null() ? json(nullptr) : json(row["until"].c_str());
    s["waits_for"] = waits_for(s) + (s["is_paused"] ? "; its saga is paused" : "");
    return s;
}

// Whether its error is of a try that began after the row was `then`. Whoever had it then may have failed since, with
// what was said before.
bool has_failed_since(json const& now, json const& then)
{
    auto const taken = now["fence"].get<int>() - then["fence"].get<int>();
    return now["tries"] > then["tries"] && taken >= (now["owner"].get_ref<std::string const&>().empty() ? 1 : 2);
}

}  // namespace

json list_started(postgres::connection& c, started_filter const& filter)
{
    json page{{"started", json::array()}, {"more", false}};
    for (auto const& row : c.run(postgres::execute(queries::list_started{.key = filter.key,
                           .scope = filter.scope,
                           .unknown = filter.unknown,
                           .rows_max = std::int64_t{filter.limit} + 1}))) {
        if (page["started"].size() < static_cast<std::size_t>(filter.limit))
            page["started"].push_back(started_step_of(row));
        else page["more"] = true;
    }
    return page;
}

json find_started(postgres::connection& c, core::saga_id const& saga, std::string const& step)
{
    constexpr int all_of_a_saga = 10'000;
    auto const page = list_started(c, {.key = saga.key, .scope = saga.scope, .limit = all_of_a_saga});
    for (auto const& one : page["started"])
        if (one["step"] == step) return one;
    return nullptr;
}

json verdict_on(postgres::connection& c, resolution const& what, json const& then)
{
    auto const now = find_started(c, what.saga, what.step);
    if (now.is_null()) return {{"is_recorded", true}};
    if (has_failed_since(now, then)) return {{"is_recorded", false}, {"error", now["error"]}};
    return nullptr;
}

std::optional<std::string> resolve(postgres::connection& c, resolution const& what)
{
    json const answer = what.result ? json{{"happened", *what.result}} : json{{"did_not_happen", what.reason}};
    auto const rows =
        c.run("SET TRANSACTION READ WRITE;" + postgres::execute(queries::resolve_step{.scope = what.saga.scope,
                                                                                      .key = what.saga.key,
                                                                                      .step = what.step,
                                                                                      .answer = answer.dump(),
                                                                                      .reason = what.reason,
                                                                                      .by = what.by}));
    if (rows[0]["refusal"].is_null()) return {};
    return rows[0]["refusal"].c_str();
}

std::string signal(postgres::connection& c, core::saga_id const& saga, std::string const& step, json const& body)
{
    auto const rows = c.run("SET TRANSACTION READ WRITE;" +
                            postgres::execute(queries::send_signal{
                                .scope = saga.scope, .key = saga.key, .step = step, .body = body.dump()}));
    return rows[0]["outcome"].c_str();
}

}  // namespace skald::admin
