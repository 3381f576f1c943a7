// What follows from a step is decided twice: in C++, and for other languages in SQL (0020_participants.sql). Here both
// are asked about the same random deliveries. PARTICIPANT_CASES says about how many.
#include "core/instant.hpp"
#include "core/text.hpp"
#include "languages/cases.hpp"
#include "runtime/step_consequences.hpp"
#include "support/database.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace skald;
using namespace skald::test;
using nlohmann::json;

namespace {

constexpr std::chrono::milliseconds deploy_wait{900'000};

// One delivery, and what the C++ says of it.
struct one_case
{
    json asked;
    json expected;
};

json record_in(ports::changes const& made)
{
    if (made.records.empty()) return nullptr;
    auto const& r = made.records.front();
    json record{{"status", core::name_of(r.status)},
                {"attempts", r.attempts},
                {"snoozes", r.snoozes_added},
                {"error", r.error}};
    if (r.drop_fingerprint) record["drop_fingerprint"] = true;
    return record;
}

json report_in(ports::changes const& made)
{
    for (auto const& one : made.progress) return {{"progress", json::parse(one).at(0)}};
    for (auto const& one : made.saga_changes)
        return {{"saga", core::name_of(one.state)}, {"reason", core::storable_text(one.reason)}};
    for (auto const& one : made.messages) {
        auto const& m = one.message;
        if (m.type != core::progress_type) continue;
        return {{"to", m.destination},
                {"member", json::parse(m.body).at(0)},
                {"version", std::stoi(std::string{*core::find_header(m.headers, core::header::version)})}};
    }
    return nullptr;
}

json next_in(ports::changes const& made)
{
    if (made.messages.empty() || made.messages.front().message.type == core::progress_type) return nullptr;
    auto const& [m, scope, type, id, delay, row, grace, kept] = made.messages.front();
    return {{"destination", m.destination},
            {"type", m.type},
            {"id", m.id},
            {"headers", headers_of(m.headers)},
            {"delay_ms", delay.count()}};
}

json parked_in(ports::changes const& made)
{
    if (made.parked.empty()) return nullptr;
    auto const& p = made.parked.front();
    return {{"reason", p.reason}, {"error", core::storable_text(p.error)}, {"attempts", p.attempts}};
}

// What the SQL says, in the same form.
json as_changes(json said, std::string const& home)
{
    json made{{"event", said["event"]},
              {"record", said["record"]},
              {"next", said["next"]},
              {"parked", said["parked"]},
              {"report", nullptr}};
    if (auto& record = made["record"]; record.is_object() && !record.value("drop_fingerprint", false))
        record.erase("drop_fingerprint");
    if (auto& parked = made["parked"]; parked.is_object())
        parked["error"] = core::storable_text(parked["error"].get<std::string>());
    if (auto const& report = said["report"]; report.is_object()) {
        auto const& member = report["member"];
        if (home != this_service) made["report"] = {{"to", home}, {"member", member}, {"version", report["version"]}};
        else if (!report["is_recorded"].get<bool>()) made["report"] = {{"progress", member}};
        else made["report"] = {{"saga", member["saga"]}, {"reason", member.value("reason", "")}};
    }
    return made;
}

class questions
{
public:
    explicit questions(std::uint_fast32_t seed) : random_{seed} {}

    one_case next()
    {
        auto const meant = random_.envelope();
        auto const m = random_.message(meant);
        auto const hosted = random_.hosted(meant);
        auto const registry = registry_of(meant, hosted, deploy_wait);
        auto const began = core::parse_instant(random_.time()).value();
        auto const at = random_.one_in(2) ? began : core::parse_instant(random_.time()).value();
        one_case made{{{"type", m.type},
                       {"headers", headers_of(m.headers)},
                       {"name", meant.definition + '/' + meant.itinerary.current().name},
                       {"hosted", hosted ? *hosted : json{}},
                       {"began_at", core::write_instant(began)},
                       {"at", core::write_instant(at)},
                       {"luck", random_.random().number(0, 1)}},
                      {}};
        ports::delivery came{};
        came.message = m;
        auto t = runtime::route(std::move(came), this_service, registry);
        if (auto const* const bad = std::get_if<runtime::unreadable_message>(&t.purpose)) {
            made.expected = {{"refusal", bad->why}};
            return made;
        }
        auto const& e = t.step()->envelope;
        auto const claimed = random_.claim(e);
        auto ended = json{};
        if (!t.refused && (runtime::must_run(claimed) || random_.one_in(3))) ended = random_.ended(e);
        auto how = t.refused ? std::optional<runtime::step_result>{*t.refused} : result_of(ended);
        static std::map<ports::cancel_cause, json> const causes{
            {ports::cancel_cause::none, nullptr},
            {ports::cancel_cause::command, "operator"},
            {ports::cancel_cause::deadline, "deadline"},
            {ports::cancel_cause::nothing_to_undo, "nothing to undo"},
            {ports::cancel_cause::other_home, "home"}};
        static constexpr std::array results{"fresh",    "retry",     "duplicate", "in_flight",
                                            "mismatch", "cancelled", "paused",    "closed"};
        made.asked["claim"] = {{"result", results[static_cast<std::size_t>(claimed.result)]},
                               {"attempts", claimed.attempts},
                               {"held", claimed.held},
                               {"cause", causes.at(claimed.cause)},
                               {"reason", claimed.reason}};
        made.asked["ended"] = ended;
        t.first_tried = began;
        ports::changes changes;
        auto const happened =
            runtime::add_consequences(changes, t, claimed, std::move(how), {this_service, at, engine_});
        made.expected = {{"event", happened.event},
                         {"record", record_in(changes)},
                         {"next", next_in(changes)},
                         {"report", report_in(changes)},
                         {"parked", parked_in(changes)}};
        return made;
    }

private:
    random_cases random_;
    std::mt19937_64 engine_{1};
};

std::vector<json> ask(pqxx::connection& c, std::vector<one_case> const& all)
{
    auto asked = json::array();
    for (auto const& one : all) asked.push_back(one.asked);
    pqxx::nontransaction tx{c};
    std::vector<json> said;
    for (auto const& row : tx.exec_params(
             "SELECT CASE WHEN (r.e).refusal IS NOT NULL THEN jsonb_build_object('refusal', (r.e).refusal)"
             "            ELSE skald.follow(r.e, r.q->'hosted', r.q->'claim'->>'result', "
             "(r.q->'claim'->>'attempts')::integer,"
             "                 (r.q->'claim'->>'held')::boolean, r.q->'claim'->>'cause', r.q->'claim'->>'reason',"
             "                 coalesce(skald.why_not_hosted(r.e, 'payments', r.mine, '15 min'), nullif(r.q->'ended', "
             "'null')),"
             "                 'payments', (r.q->>'began_at')::timestamptz, (r.q->>'at')::timestamptz, "
             "(r.q->>'luck')::float8) END"
             "  FROM (SELECT q.q, q.o, e, CASE WHEN q.q->>'name' = e.definition || '/' || e.names[e.place]"
             "                                 THEN nullif(q.q->'hosted', 'null') END AS mine"
             "          FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY AS q(q, o)"
             "         CROSS JOIN LATERAL skald.read_envelope(q.q->>'type', q.q->'headers') AS e OFFSET 0) AS r ORDER "
             "BY r.o",
             asked.dump()))
        said.push_back(json::parse(row[0].c_str()));
    return said;
}

// A wait is random in C++: between what the SQL says with the least and with the most luck.
bool is_wait_possible(json& expected, json& said, bool is_most)
{
    if (!expected.contains("next") || !expected["next"].is_object() || !said["next"].is_object()) return true;
    auto const ours = expected["next"]["delay_ms"].get<std::int64_t>();
    auto const theirs = said["next"]["delay_ms"].get<std::int64_t>();
    expected["next"].erase("delay_ms");
    said["next"].erase("delay_ms");
    return is_most ? ours <= theirs : ours >= theirs;
}

struct comparison
{
    std::map<std::string, int> met;  // by event
    std::vector<std::string> wrong;
};

// Ends after a few differences.
comparison compare(pqxx::connection& c, int many)
{
    comparison made;
    questions random{20'260'701};
    for (int done = 0; done < many && made.wrong.size() < 5;) {
        std::vector<one_case> all;
        for (; all.size() < 1'000 && done < many; ++done) all.push_back(random.next());
        auto const answers = ask(c, all);
        REQUIRE(answers.size() == all.size());
        for (std::size_t n = 0; n < all.size(); ++n) {
            auto& [asked, expected] = all[n];
            auto said = answers[n];
            if (!said.contains("refusal") && expected.contains("event"))
                said = as_changes(said, asked["headers"].value("x-saga-home", ""));
            bool const is_possible = is_wait_possible(expected, said, asked["luck"] == 1);
            ++made.met[expected.contains("refusal") ? "refused" : expected["event"].get<std::string>()];
            if (!is_possible || said != expected)
                made.wrong.push_back("asked " + asked.dump() + "\nC++ " + expected.dump() + "\nSQL " + said.dump() +
                                     (is_possible ? "" : "\nits wait is wrong"));
        }
    }
    return made;
}

}  // namespace

TEST_CASE("the SQL says the same of what follows from a delivery as the C++")
{
    database const db{this_service};
    pqxx::connection c{db.url()};
    auto const many = cases_wanted(50'000);
    auto made = compare(c, many);
    for (auto const& one : made.wrong) FAIL_CHECK(one);
    for (auto const* const event : {"refused", "step.put_back", "delivery.parked", "step.duplicate", "step.rejected",
                                    "step.cancelled", "step.completed", "step.snoozed", "step.failed",
                                    "step.awaits_deploy", "step.attempts_exhausted", "step.parked"}) {
        CAPTURE(event);
        CHECK(made.met[event] > many / 1'000);
    }
}

TEST_CASE("a fault in that SQL is noticed")
{
    database const db{this_service};
    pqxx::connection c{db.url()};
    for (auto const& [function, from, to] :
         std::vector<fault>{{"follow", "e.place - 1", "e.place"},
                            {"follow", "again.is_back := true", "again.is_back := e.is_back"},
                            {"follow", "tried := attempts - 1", "tried := attempts"},
                            {"follow", "e.attempt + e.snoozes + 1 - again.attempt", "e.snoozes"},
                            {"follow", "status <> 'completed' OR result <> 'fresh'", "status <> 'completed'"},
                            {"follow", "attempts < coalesce(", "attempts <= coalesce("},
                            {"follow", "'failed its last attempt: '", "'failed: '"},
                            {"follow", "again.step_deadline := NULL;", ""},
                            {"follow", "'malformed', 'unknown_step', 'body_missing', 'body_damaged'", "'malformed'"},
                            {"follow", "WHEN 'paused' THEN 5000", "WHEN 'paused' THEN 1000"},
                            {"follow", "cause IN ('operator', 'deadline')", "true"},
                            {"follow", "is_recorded := false", "is_recorded := true"},
                            {"follow", "coalesce(e.waits_since, ", "coalesce(NULL, "},
                            {"read_envelope", "count(DISTINCT s.name) = count(*)", "true"},
                            {"read_envelope", "many <> ", "many < "},
                            {"read_envelope", "^c*p?r*$", "^c*p*r*$"},
                            {"read_envelope", "> 2000000000 - e.attempt", "> 2000000000"},
                            {"read_envelope", "type IS DISTINCT FROM step", "false"},
                            {"is_instant", "year % 100 <> 0", "true"},
                            {"is_traceparent", "<> 'ff'", "<> 'fe'"},
                            {"longest_wait", "first_ms << doublings", "first_ms"},
                            {"message_of", "'x-saga-deadline', e.saga_deadline, ", ""},
                            {"short_text", "size - 1", "size - 2"},
                            {"why_not_hosted", "waits := false", "waits := true"}}) {
        INFO("in ", std::string{function}, ": ", std::string{from});
        planted_fault const planted{c, function, from, to};
        CHECK_FALSE(compare(c, 10'000).wrong.empty());
    }
}
