// The same deliveries come to a service in C++ and to a participant that calls skald.take() and its like. Afterwards
// their databases must say the same, but for times and the numbers of rows.
#include "core/instant.hpp"
#include "core/text.hpp"
#include "languages/cases.hpp"
#include "postgres/postgres_store.hpp"
#include "runtime/executor.hpp"
#include "support/database.hpp"

#include <skald/errors.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

using namespace skald;
using namespace skald::test;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

/// A delivery, and how its step ends if it runs.
struct arrival
{
    ports::delivery delivery;
    json ended = json::object();
    std::vector<std::string> published;  // by a step that is done: types
    std::string data;                    // what it makes of its data; empty: it stays as it came
};

/// A step that does what the arrival says.
class scripted_run final : public detail::step_run
{
public:
    scripted_run(arrival const& how, std::string_view body) : how_{how}, body_{body}
    {
        detail::parse_checked(body);
        if (how_.ended.value("reason", "") == "malformed") throw data_error{how_.ended["why"]};
    }

    outcome execute(step_context& ctx) override
    {
        auto const end = how_.ended.at("end").get<std::string>();
        if (end == "failed") throw std::runtime_error{how_.ended["why"]};
        if (end == "rejected") return reject(how_.ended["why"]);
        if (end == "snoozed") return snooze(std::chrono::milliseconds{how_.ended["wait_ms"].get<std::int64_t>()});
        for (auto const& type : how_.published)
            ctx.publish("mail", type, {{"said", type}}, type == "rumour" ? unrouted::drop : unrouted::keep);
        return skald::done();
    }
    void compensate(step_context& ctx) override { execute(ctx); }
    std::string data() override { return how_.data.empty() ? body_ : how_.data; }
    void const* object() const override { return &body_; }

private:
    arrival const& how_;
    std::string body_;
};

class scripted_step final : public detail::hosted_step
{
public:
    explicit scripted_step(arrival const& how) : how_{how} {}
    std::unique_ptr<detail::step_run> read(std::string_view body) const override
    {
        return std::make_unique<scripted_run>(how_, body);
    }
    bool does_batches() const override { return false; }
    batch_outcome execute_batch([[maybe_unused]] std::span<detail::member_run const> all) const override
    {
        return batch_outcome::one_by_one;
    }

private:
    arrival const& how_;
};

// What is random, or the time, is taken out; so is what a parser says of a text that is no JSON.
constexpr char const* all_rows =
    "WITH texts AS ("
    "SELECT 1 AS t, scope || key || step AS o, to_jsonb(i) - '{created_at,updated_at}'::text[] AS r FROM skald.idempotency i"
    " UNION ALL "
    "SELECT 2, to_char(id, '0000000000'), jsonb_set(to_jsonb(b) - '{id,created_at,due_at}'::text[], '{headers}',"
    "       headers || CASE WHEN headers ? 'skald-waits-since' THEN '{\"skald-waits-since\": 1}'::jsonb ELSE '{}' END"
    "               || CASE WHEN headers->>'x-step-deadline' > '2026' THEN '{\"x-step-deadline\": 1}'::jsonb ELSE '{}' END)"
    "       || jsonb_build_object('payload', CASE WHEN type = 'skald.progress' THEN (SELECT jsonb_agg(m - 'at' ORDER BY m->>'step')"
    "                      FROM jsonb_array_elements(convert_from(payload, 'UTF8')::jsonb) AS m)"
    "                                             ELSE to_jsonb(payload) END,"
    "                             'wait', round(extract(epoch FROM due_at - created_at) / 500)) FROM skald.outbox b"
    " UNION ALL "
    "SELECT 3, message_id || reason || CASE WHEN reason <> 'unknown_saga' THEN fingerprint::text ELSE error END,"
    "       to_jsonb(p) - '{id,parked_at}'::text[] - CASE WHEN reason = 'unknown_saga' THEN '{body,fingerprint}'::text[] ELSE '{}' END"
    "  FROM skald.parked p"
    " UNION ALL "
    "SELECT 4, scope || key, to_jsonb(s) - '{created_at,updated_at,finished_at}'::text[]"
    "       || jsonb_build_object('ended', finished_at IS NOT NULL) FROM skald.saga s"
    " UNION ALL "
    "SELECT 5, scope || key || step, to_jsonb(g) - 'at' FROM skald.progress g"
    " UNION ALL "
    "SELECT 6, scope || key || home, to_jsonb(c) FROM skald.control c"
    " UNION ALL "
    "SELECT 7, scope || key || home, to_jsonb(e) - 'noted_at' FROM skald.ended e"
    " UNION ALL "
    "SELECT 8, command_id::text, to_jsonb(a) - '{id,at}'::text[] FROM skald.audit a)"
    "SELECT string_agg(regexp_replace(regexp_replace(r::text, '[.]closed[.][0-9a-f-]+', '.closed', 'g'), '(JSON that Skald accepts|(ERROR:  )?(null value|invalid input|value for domain|new row|date/time))"
    "(?:[^\"\\\\]|\\\\.)*', 'refused', 'g'), E'\\n' ORDER BY t, o COLLATE \"C\") FROM texts";

/// A service's database, and whatever takes deliveries for it.
class side
{
public:
    side() { run("SELECT skald.host('payments', '{}')"); }
    virtual ~side() = default;

    void begin(std::string const& sagas)
    {
        run("DELETE FROM skald.idempotency; DELETE FROM skald.outbox; DELETE FROM skald.parked; DELETE FROM skald.saga;"
            "DELETE FROM skald.progress; DELETE FROM skald.control; DELETE FROM skald.ended; DELETE FROM skald.audit;" +
            sagas);
    }
    virtual void deliver(arrival const& one, std::string const& name, std::optional<json> const& hosted) = 0;
    std::string rows() { return run(all_rows)[0][0].c_str(); }

protected:
    pqxx::result run(std::string const& sql) { return pqxx::nontransaction{session_}.exec(sql); }

    database const db_{this_service};
    pqxx::connection session_{db_.url() + (db_.url().find('?') == std::string::npos ? "?" : "&") +
                              "options=-csynchronous_commit%3Doff"};
};

class in_cpp final : public side
{
public:
    void deliver(arrival const& one, std::string const& name, std::optional<json> const& hosted) override
    {
        core::envelope named;
        named.definition = name.substr(0, name.find('/'));
        named.itinerary.steps.push_back({name.substr(name.find('/') + 1), this_service, {}});
        runtime::registry steps{900s};
        if (hosted) {
            runtime::registered_step step = *registry_of(named, hosted, 900s).find(named.definition, named.itinerary.current().name);
            step.step = std::make_shared<scripted_step>(one);
            steps.add(named.definition, named.itinerary.current().name, std::move(step));
        }
        auto t = runtime::route(one.delivery, this_service, steps);
        for (int tries = 0; !lane_.run({&t, 1}).processed(); ++tries) REQUIRE(tries < 10);
    }

private:
    postgres::postgres_store store_{{.url = db_.url(), .waits_for_disk = false}};
    runtime::memory_source out_;
    core::silent_logger log_;
    runtime::executor lane_{this_service, store_, out_, log_, std::mt19937_64{1}};
};

class in_sql final : public side
{
public:
    void deliver(arrival const& one, std::string const& name, std::optional<json> const& hosted) override
    {
        auto const& m = one.delivery.message;
        auto const steps = hosted ? json{{name, *hosted}}.dump() : std::string{"{}"};
        run("BEGIN");
        pqxx::nontransaction tx{session_};
        auto const row = tx.exec_params("SELECT verdict, taken FROM skald.take($1, $2, decode($3, 'hex'), $4, $5, $6, $7)", m.type,
                                        headers_of(m.headers).dump(), core::to_hex(m.body), steps, m.id, m.content_type,
                                        one.delivery.given_up)[0];
        if (row[0].c_str() != std::string_view{"run"}) {
            tx.exec("COMMIT");
            return;
        }
        end(tx, one, row[1].c_str());
    }

private:
    static void end(pqxx::transaction_base& tx, arrival const& one, std::string const& taken)
    {
        auto const body = core::to_hex(one.delivery.message.body);
        auto const end = one.ended.at("end").get<std::string>();
        if (end == "done") {
            for (auto const& type : one.published)
                tx.exec_params("SELECT skald.publish($1, 'mail', $2, convert_to($3, 'UTF8'), $4)", taken, type,
                               json{{"said", type}}.dump(), type == "rumour" ? "drop" : "keep");
            tx.exec_params("SELECT skald.done($1, decode($2, 'hex'))", taken, one.data.empty() ? body : core::to_hex(one.data));
            tx.exec("COMMIT");
            return;
        }
        tx.exec("ROLLBACK");
        if (end == "rejected")
            tx.exec_params("SELECT skald.reject($1, decode($2, 'hex'), $3)", taken, body, one.ended["why"].get<std::string>());
        else if (end == "failed")
            tx.exec_params("SELECT skald.fail($1, decode($2, 'hex'), $3)", taken, body, one.ended["why"].get<std::string>());
        else if (end == "snoozed")
            tx.exec_params("SELECT skald.snooze($1, decode($2, 'hex'), $3 * interval '1 millisecond')", taken, body,
                           one.ended["wait_ms"].get<std::int64_t>());
        else
            tx.exec_params("SELECT skald.give_up($1, decode($2, 'hex'), $3, $4)", taken, body,
                           one.ended["reason"].get<std::string>(), one.ended["why"].get<std::string>());
    }
};

/// Deliveries for a few sagas with one plan, so that they meet each other's records.
class story
{
public:
    explicit story(std::uint_fast32_t seed) : random_{seed}, plan_{random_.itinerary()}
    {
        for (auto& one : plan_.steps)
            if (!random_.one_in(4)) one.service = this_service;
        for (auto const& one : plan_.steps)
            if (!random_.one_in(10)) retries_.emplace(one.name, json{{"attempts", random_.random().number(1, 4)}});
    }

    std::string sagas()
    {
        std::string made;
        for (auto const* const key : {"a", "b"})
            if (random_.random().coin())
                made += std::string{"INSERT INTO skald.saga (scope, key, definition, data, itinerary) VALUES ('', '"} + key +
                        "', 'place-order', '{}', '" + plan_.text() + "');";
        return made;
    }

    arrival next()
    {
        if (!before_.empty() && random_.one_in(4)) {
            auto again = before_[random_.random().number(0, before_.size() - 1)];
            if (random_.one_in(8)) again.delivery.message.body += ' ';  // the same key with another body
            return again;
        }
        arrival made = random_.one_in(8) ? own() : step();
        before_.push_back(made);
        return made;
    }

    /// What the service says of a step, by its name; nothing: it does not have it.
    std::optional<json> hosted(std::string const& step)
    {
        auto const found = retries_.find(step);
        if (found == retries_.end()) return std::nullopt;
        auto said = found->second;
        said["kind"] = kind_of(step);
        said["first_ms"] = said["longest_ms"] = 0;  // no random waits
        said["version"] = 2;
        if (said["kind"] != "retriable") said["deadline_ms"] = 4'000'000;
        return said;
    }

private:
    std::string kind_of(std::string const& step) const
    {
        static constexpr std::array names{"compensatable", "pivot", "retriable"};
        auto const found = std::ranges::find(plan_.steps, step, &core::itinerary_step::name);
        return names[static_cast<std::size_t>(found->kind)];
    }

    arrival step()
    {
        auto e = random_.envelope();
        e.saga = {"", random_.any_of("a", "b", "c")};
        e.definition = "place-order";
        e.itinerary = plan_;
        e.itinerary.position.index = random_.random().number(0, plan_.steps.size() - 1);
        e.itinerary.position.direction = core::direction::forward;
        if (e.itinerary.current().kind == step_kind::compensatable && random_.one_in(3))
            e.itinerary.position.direction = core::direction::back;
        e.version = random_.one_in(10) ? 3 : 1;
        for (auto* const time : {&e.saga_deadline, &e.step_deadline})  // long ago, or long from now
            if (*time) *time = **time + (random_.random().coin() ? -std::chrono::years{20} : std::chrono::years{60});
        // Long over, or not begun: in between, a wait is random.
        if (e.waits_since) *e.waits_since -= std::chrono::years{10};
        arrival made;
        made.delivery.message = random_.one_in(5) ? random_.message(e) : core::write_message(e, R"({"id":"1"})");
        made.delivery.message.body = random_.any_of(R"({"id":"1"})", R"({"id":"1"})", R"( {"id": "1", "cents": 1.50} )",
                                                    R"({"a":1,"a":2})", R"({"a":18446744073709551616})", "", "{", "\"\\u0000\"");
        made.delivery.given_up = random_.one_in(30);
        do made.ended = random_.ended(e);
        while (!is_possible(made.ended, e));
        made.ended.erase("version");
        if (random_.one_in(3)) made.data = R"({"id":"1","new":true})";
        if (random_.one_in(3)) made.published = {"charged", "rumour"};
        std::ranges::sort(made.delivery.message.headers);
        return made;
    }

    // A compensation only ends or fails; bodies that are kept apart are not read in SQL; and no step of the test ends
    // its own transaction.
    static bool is_possible(json const& ended, core::envelope const& e)
    {
        auto const end = ended.at("end").get<std::string>();
        if (end == "unrunnable") return ended["reason"] == "malformed";
        bool const is_back = e.itinerary.position.direction == core::direction::back;
        return !is_back || end == "done" || end == "failed";
    }

    // What Skald sends by itself.
    arrival own()
    {
        auto const key = random_.any_of("a", "b", "c");
        auto const home = random_.any_of("orders", "payments");
        auto const step = plan_.steps[random_.random().number(0, plan_.steps.size() - 1)].name;
        arrival made;
        auto& m = made.delivery.message;
        m.destination = this_service;
        m.headers = {{"x-idempotency-key", key + ":" + step}, {"x-saga-home", home}, {"x-saga-scope", ""}};
        json body;
        if (random_.random().coin()) {
            m.type = "skald.control";
            body = {{"id", "0190b0a0-0000-7000-8000-00000000000" + random_.random().text("0123456789", 1, 1)},
                    {"scope", ""},
                    {"key", key},
                    {"home", home},
                    {"action", random_.any_of("pause", "resume", "cancel", "close")},
                    {"by", "ada"},
                    {"requested_at", random_.time()},
                    {"reason", "she said so"},
                    {"another", 1}};
        }
        else if (random_.random().coin()) {
            m.type = "skald.progress";
            body = json::array({{{"scope", ""},
                                 {"key", key},
                                 {"step", step},
                                 {"service", "shipping"},
                                 {"status", random_.any_of("completed", "rejected", "parked", "retrying")},
                                 {"attempts", 1},
                                 {"at", random_.time()},
                                 {"saga", "running"}}});
        }
        else {
            m.type = "skald.expire";
            body = json::array({{{"scope", ""}, {"key", key}, {"home", home}, {"steps", {step}}, {"ended_at", random_.time()}}});
        }
        if (random_.one_in(5)) spoil(body);
        m.body = body.dump();
        if (random_.one_in(20)) m.body.pop_back();
        return made;
    }

    void spoil(json& body)
    {
        auto& of = body.is_array() ? body[0] : body;
        auto it = of.begin();
        std::advance(it, random_.random().number(0, of.size() - 1));
        if (random_.random().coin()) of.erase(it);
        else if (body.is_object()) *it = random_.any_of("", "x", "A b");
        else if (random_.random().coin()) body = json::array();
        else body = json::array({1});
    }

    random_cases random_;
    core::itinerary plan_;
    std::map<std::string, json> retries_;
    std::vector<arrival> before_;
};

std::string first_difference(std::string const& one, std::string const& other)
{
    auto const at = std::ranges::mismatch(one, other).in1 - one.begin();
    auto const from = one.rfind('\n', static_cast<std::size_t>(at)) + 1;
    return "C++ " + one.substr(from, one.find('\n', from) - from) + "\nSQL " + other.substr(from, other.find('\n', from) - from);
}

}  // namespace

TEST_CASE("a participant in SQL leaves the same rows as a service in C++")
{
    constexpr int in_a_story = 12;
    in_cpp cpp;
    in_sql sql;
    auto const many = cases_wanted(50'000) / 10;
    int wrong = 0;
    std::map<std::string, int> met;
    for (int done = 0; done < many && wrong < 5; done += in_a_story) {
        story told{static_cast<std::uint_fast32_t>(done)};
        auto const sagas = told.sagas();
        cpp.begin(sagas);
        sql.begin(sagas);
        std::string came;
        for (int n = 0; n < in_a_story; ++n) {
            auto const one = told.next();
            auto const& m = one.delivery.message;
            auto const name = m.type.starts_with("skald.") || m.type.empty() ? std::string{"s0"} : m.type;
            auto const hosted = told.hosted(name);
            came += '\n' + std::string{m.type} + ' ' + headers_of(m.headers).dump() + ' ' + m.body + ' ' + one.ended.dump();
            cpp.deliver(one, "place-order/" + name, hosted);
            sql.deliver(one, "place-order/" + name, hosted);
        }
        auto const one = cpp.rows(), other = sql.rows();
        for (auto const* const word :
             {"\"completed\"", "\"rejected\"", "\"retrying\"", "\"cancelled\"", "\"parked\"", "\"malformed\"", "\"mismatch\"",
              "\"unknown_step\"", "\"delivery_limit\"", "\"attempts_exhausted\"", "\"closed\"", "\"stuck\"", "\"compensated\"",
              "\"drop\"", "compensate", "snoozed", "unknown_saga"})
            met[word] += one.find(word) != std::string::npos;
        if (one == other) continue;
        ++wrong;
        FAIL_CHECK("story ", done, came, "\n", first_difference(one, other));
    }
    for (auto const& [word, times] : met) {
        CAPTURE(word);
        CHECK((times > 0 || many < 2'000));
    }
}
