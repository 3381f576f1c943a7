// The same deliveries come to a service in C++ and to a participant that calls skald.take() and its like. Afterwards
// their databases must say the same, but for times and the numbers of rows.
#include "core/instant.hpp"
#include "core/text.hpp"
#include "languages/story.hpp"
#include "postgres/postgres_store.hpp"
#include "runtime/executor.hpp"
#include "support/database.hpp"

#include <skald/errors.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace skald;
using namespace skald::test;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

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
    "SELECT 1 AS t, scope || key || step AS o, to_jsonb(i) - '{created_at,updated_at}'::text[] AS r FROM "
    "skald.idempotency i"
    " UNION ALL "
    "SELECT 2, to_char(id, '0000000000'), jsonb_set(to_jsonb(b) - '{id,created_at,due_at}'::text[], '{headers}',"
    "       headers || CASE WHEN headers ? 'skald-waits-since' THEN '{\"skald-waits-since\": 1}'::jsonb ELSE '{}' END"
    "               || CASE WHEN headers->>'x-step-deadline' > '2026' THEN '{\"x-step-deadline\": 1}'::jsonb ELSE '{}' "
    "END)"
    "       || jsonb_build_object('payload', CASE WHEN type = 'skald.progress' THEN (SELECT jsonb_agg(m - 'at' ORDER "
    "BY m->>'step')"
    "                      FROM jsonb_array_elements(convert_from(payload, 'UTF8')::jsonb) AS m)"
    "                                             ELSE to_jsonb(payload) END,"
    "                             'wait', round(extract(epoch FROM due_at - created_at) / 500)) FROM skald.outbox b"
    " UNION ALL "
    "SELECT 3, message_id || reason || CASE WHEN reason <> 'unknown_saga' THEN fingerprint::text ELSE error END,"
    "       to_jsonb(p) - '{id,parked_at}'::text[] - CASE WHEN reason = 'unknown_saga' THEN "
    "'{body,fingerprint}'::text[] ELSE '{}' END"
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
    "SELECT string_agg(regexp_replace(regexp_replace(r::text, '[.]closed[.][0-9a-f-]+', '.closed', 'g'), '(JSON that "
    "Skald accepts|(ERROR:  )?(null value|invalid input|value for domain|new row|date/time))"
    "(?:[^\"\\\\]|\\\\.)*', 'refused', 'g'), E'\\n' ORDER BY t, o COLLATE \"C\", r::text COLLATE \"C\") FROM "
    "texts";

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
            runtime::registered_step step =
                *registry_of(named, hosted, 900s).find(named.definition, named.itinerary.current().name);
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
        auto const row = tx.exec_params(
            "SELECT verdict, taken FROM skald.take($1, $2, decode($3, 'hex'), $4, $5, $6, $7)", m.type,
            headers_of(m.headers).dump(), core::to_hex(m.body), steps, m.id, m.content_type, one.delivery.given_up)[0];
        if (row[0].c_str() != std::string_view{"run"}) {
            tx.exec("COMMIT");
            return;
        }
        end(tx, one, row[1].c_str());
    }

    std::unique_ptr<planted_fault> plant(fault const& f)
    {
        return std::make_unique<planted_fault>(session_, f.function, f.from, f.to);
    }

    /// After an error.
    void give_up() { run("ROLLBACK"); }

private:
    static void end(pqxx::transaction_base& tx, arrival const& one, std::string const& taken)
    {
        auto const body = core::to_hex(one.delivery.message.body);
        auto const end = one.ended.at("end").get<std::string>();
        if (end == "done") {
            for (auto const& type : one.published)
                tx.exec_params("SELECT skald.publish($1, 'mail', $2, convert_to($3, 'UTF8'), $4)", taken, type,
                               json{{"said", type}}.dump(), type == "rumour" ? "drop" : "keep");
            tx.exec_params("SELECT skald.done($1, decode($2, 'hex'))", taken,
                           one.data.empty() ? body : core::to_hex(one.data));
            tx.exec("COMMIT");
            return;
        }
        tx.exec("ROLLBACK");
        if (end == "rejected")
            tx.exec_params("SELECT skald.reject($1, decode($2, 'hex'), $3)", taken, body,
                           one.ended["why"].get<std::string>());
        else if (end == "failed")
            tx.exec_params("SELECT skald.fail($1, decode($2, 'hex'), $3)", taken, body,
                           one.ended["why"].get<std::string>());
        else if (end == "snoozed")
            tx.exec_params("SELECT skald.snooze($1, decode($2, 'hex'), $3 * interval '1 millisecond')", taken, body,
                           one.ended["wait_ms"].get<std::int64_t>());
        else
            tx.exec_params("SELECT skald.give_up($1, decode($2, 'hex'), $3, $4)", taken, body,
                           one.ended["reason"].get<std::string>(), one.ended["why"].get<std::string>());
    }
};

std::vector<std::string> sorted_lines(std::string const& text)
{
    std::vector<std::string> all;
    std::istringstream from{text};
    for (std::string line; std::getline(from, line);) all.push_back(line);
    std::ranges::sort(all);
    return all;
}

std::string differences(std::string const& cpp, std::string const& sql)
{
    auto const ones = sorted_lines(cpp), others = sorted_lines(sql);
    std::string text;
    std::vector<std::string> only;
    std::ranges::set_difference(ones, others, std::back_inserter(only));
    for (auto const& line : std::exchange(only, {})) text += "\nonly in C++ " + line;
    std::ranges::set_difference(others, ones, std::back_inserter(only));
    for (auto const& line : only) text += "\nonly in SQL " + line;
    return text;
}

constexpr int in_a_story = 12;

// Tells both the same story. Returns what differs, or nothing; `rows` is what the C++ has left.
std::string tell(int number, in_cpp& cpp, in_sql& sql, std::string& rows)
{
    story told{static_cast<std::uint_fast32_t>(number)};
    auto const sagas = told.sagas();
    cpp.begin(sagas);
    sql.begin(sagas);
    std::string came;
    for (int n = 0; n < in_a_story; ++n) {
        auto const one = told.next();
        auto const& m = one.delivery.message;
        auto const name = m.type.starts_with("skald.") || m.type.empty() ? std::string{"s0"} : m.type;
        auto const hosted = told.hosted(name);
        came += '\n' + m.type + ' ' + headers_of(m.headers).dump() + ' ' + m.body + ' ' + one.ended.dump();
        cpp.deliver(one, "place-order/" + name, hosted);
        sql.deliver(one, "place-order/" + name, hosted);
    }
    rows = cpp.rows();
    auto const other = sql.rows();
    if (rows == other) return {};
    return "story " + std::to_string(number) + came + differences(rows, other);
}

}  // namespace

TEST_CASE("a participant in SQL leaves the same rows as a service in C++")
{
    in_cpp cpp;
    in_sql sql;
    auto const many = cases_wanted(50'000) / 10;
    int wrong = 0;
    std::map<std::string, int> met;
    for (int done = 0; done < many && wrong < 5; done += in_a_story) {
        std::string rows;
        if (auto const differs = tell(done, cpp, sql, rows); !differs.empty()) {
            ++wrong;
            FAIL_CHECK(differs);
        }
        for (auto const* const word :
             {"\"completed\"", "\"rejected\"", "\"retrying\"", "\"cancelled\"", "\"parked\"", "\"malformed\"",
              "\"mismatch\"", "\"unknown_step\"", "\"delivery_limit\"", "\"attempts_exhausted\"", "\"closed\"",
              "\"stuck\"", "\"compensated\"", "\"drop\"", "compensate", "snoozed", "unknown_saga"})
            met[word] += rows.find(word) != std::string::npos;
    }
    for (auto const& [word, times] : met) {
        CAPTURE(word);
        CHECK((times > 0 || many < 2'000));
    }
}

TEST_CASE("a fault in what the SQL claims or writes is noticed")
{
    in_cpp cpp;
    in_sql sql;
    for (auto const& [function, from, to] : std::vector<fault>{
             {"claim_step", "ARRAY[e.attempt + e.snoozes]", "ARRAY[e.attempt]"},
             {"claim_step", "ARRAY[e.home]", "NULL"},
             {"claim_step", "ARRAY[fingerprint]", "ARRAY[NULL::bytea]"},
             {"claim_step", "deadline IS NOT NULL", "false"},
             {"carry_out", "coalesce(data, body)", "body"},
             {"carry_out", "i.snoozes + (r->>'snoozes')::integer", "(r->>'snoozes')::integer"},
             {"carry_out", "THEN NULL ELSE i.fingerprint", "THEN i.fingerprint ELSE i.fingerprint"},
             {"carry_out", "PERFORM skald.advance(", "PERFORM skald.record_unknown(e.scope, e.key); PERFORM length("},
             {"carry_out", "IF f ? 'parked'", "IF false"},
             {"carry_out", "interval '1 millisecond'", "interval '1 second'"},
             {"parked_as", "ORDER BY key", "ORDER BY value"},
             {"end_rolled_back", "taken->'step'", "'{}'"},
             {"publish", "number::text, true", "'0', true"},
             {"take", "skald.why_not_data(body)", "NULL"},
             {"take", "IF given_up", "IF false"},
             {"why_not_command", "skald.is_instant(c->>'requested_at')", "true"}}) {
        INFO("in ", std::string{function}, ": ", std::string{from});
        auto const planted = sql.plant({function, from, to});
        bool is_noticed = false;
        for (int n = 0; n < 300 && !is_noticed; ++n) {
            try {
                std::string rows;
                is_noticed = !tell(n * in_a_story, cpp, sql, rows).empty();
            }
            catch (pqxx::sql_error const&) {
                is_noticed = true;
                sql.give_up();
            }
        }
        CHECK(is_noticed);
    }
}
