// What the SQL for participants says to whoever calls it wrongly, and which JSON it accepts.
#include "core/backoff.hpp"
#include "entry/idempotency_key.hpp"
#include "languages/cases.hpp"
#include "support/database.hpp"

#include <skald/detail/data.hpp>
#include <skald/errors.hpp>

#include <doctest/doctest.h>

using namespace skald;
using namespace skald::test;

namespace {

bool is_accepted(std::string const& body)
try {
    detail::parse_checked(body);
    return true;
}
catch (data_error const&) {
    return false;
}

// JSON, most of it right.
std::string random_json(seeded& random, int levels)
{
    static constexpr std::array atoms{"1",
                                      "-0",
                                      "1.50",
                                      "\"a:b\"",
                                      "\"\\\"\\\\\"",
                                      "null",
                                      "true",
                                      "1e3",
                                      "\"{\"",
                                      "1E400",
                                      "-1e-400",
                                      "\"\\u0000\"",
                                      "\"\\ud800\"",
                                      "01",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "-9223372036854775808",
                                      "-9223372036854775809",
                                      "9007199254740991.5",
                                      "9007199254740993.0",
                                      "1.7976931348623157e308",
                                      "\"12345678901234567890123\"",
                                      "nul",
                                      "\"\xff\"",
                                      "\"\xc3\xa4\"",
                                      "+1",
                                      ".5",
                                      "1.",
                                      "NaN"};
    if (levels == 0 || random.number(0, 3) == 0)
        return atoms[random.number(0, random.number(0, 4) == 0 ? atoms.size() - 1 : 8)];
    bool const is_object = random.coin();
    std::string made{is_object ? "{" : "["};
    for (auto n = random.number(0, 3); n > 0; --n) {
        if (is_object) made += '"' + random.text("abcdef:{", 1, 1) + "\": ";
        made += random_json(random, levels - 1) + (n > 1 ? "," : "");
    }
    return made + (is_object ? "}" : "]");
}

std::string error_of(database const& db, std::string const& sql)
try {
    db.run(sql);
    return {};
}
catch (pqxx::sql_error const& error) {
    return error.what();
}

constexpr char const* charge = "'{\"x-idempotency-key\": \"k:charge\", \"x-saga-scope\": \"\", \"x-saga\": \"order\", "
                               "\"x-saga-home\": \"orders\", "
                               "\"x-saga-itinerary\": \"forward 1/1 charge@payments=retriable\"}'";
constexpr char const* steps = "'{\"order/charge\": {\"kind\": \"retriable\"}}'";

// `then` has what take() gave as `taken`.
std::string taken_and(std::string const& then)
{
    return std::string{"BEGIN; SELECT set_config('t.t', taken::text, false) FROM skald.take('charge', "} + charge +
           ", '{}', " + steps + ");" + then;
}

// The same where its transaction is over: `then` has it as $1.
std::string then_rolled_back(database const& db, std::string then)
{
    pqxx::connection c{db.url()};
    pqxx::work tx{c};
    auto const taken =
        tx.exec("SELECT taken FROM skald.take('charge', " + std::string{charge} + ", '{}', " + steps + ")")[0][0];
    return then.replace(then.find("$1"), 2, tx.quote(taken.c_str()));
}

constexpr char const* it = "current_setting('t.t')::jsonb";

}  // namespace

TEST_CASE("the SQL accepts the JSON that the C++ does")
{
    database const db{this_service};
    pqxx::connection c{db.url()};
    pqxx::nontransaction tx{c};
    seeded random{1};
    std::vector<std::string> bodies{"", " ", "\xef\xbb\xbf{}", "{} {}", std::string{"{}\0", 3}};
    for (int levels : {63, 64, 65, 66, 3'000}) {
        bodies.push_back(std::string(static_cast<std::size_t>(levels), '[') +
                         std::string(static_cast<std::size_t>(levels), ']'));
        std::string deep;
        for (int n = 0; n < levels; ++n) deep += "{\"a\":[";
        for (int n = 0; n < levels; ++n) deep += "]}";
        bodies.push_back(deep);
    }
    for (int n = 0; n < 5'000; ++n) bodies.push_back(random_json(random, 4));
    int accepted = 0;
    for (auto const& body : bodies) {
        auto const why = tx.exec_params("SELECT skald.why_not_data($1)", pqxx::binarystring{body})[0][0];
        accepted += why.is_null();
        CAPTURE(body);
        CHECK(why.is_null() == is_accepted(body));
    }
    CHECK(accepted > 1'000);
    CHECK(accepted < 4'500);
}

TEST_CASE("the longest wait of a retry is that of the C++")
{
    database const db{this_service};
    pqxx::connection c{db.url()};
    pqxx::nontransaction tx{c};
    seeded random{1};
    for (int n = 0; n < 2'000; ++n) {
        auto const first = random.number(0, n % 2 == 0 ? 1'000 : 99'999'999'999'999);
        auto const longest = random.number(0, n % 3 == 0 ? 30'000 : 99'999'999'999'999);
        auto const failures = random.number(0, n % 5 == 0 ? 2'000'000'000 : 70);
        core::backoff const waits{std::chrono::milliseconds{first}, std::chrono::milliseconds{longest}};
        CHECK(tx.exec_params("SELECT skald.longest_wait($1, $2, $3)", first, longest, failures)[0][0]
                  .as<std::int64_t>() == waits.ceiling(static_cast<int>(failures)).count());
    }
}

TEST_CASE("the SQL takes the Idempotency-Keys that the C++ takes, and refuses others in its words")
{
    database const db{this_service};
    pqxx::connection c{db.url()};
    pqxx::nontransaction tx{c};
    std::string const longest(180, 'k');
    for (std::string const& header :
         {std::string{}, std::string{"k"}, std::string{"\"k\";v=1"}, std::string{"k, l"}, std::string{"\"k"},
          std::string{"\"\""}, std::string{"."}, std::string{".."}, std::string{"\".\""}, std::string{"\"..\";v=1"},
          std::string{"..."}, std::string{".k"}, longest, longest + 'k'}) {
        auto const parsed = entry_detail::parse_idempotency_key(header);
        auto const seen = tx.exec_params(
            "SELECT coalesce(key, ''), coalesce(refusal, '') FROM skald.read_request_key(ARRAY[$1::text])", header)[0];
        CAPTURE(header);
        CHECK(seen[0].c_str() == parsed.value);
        CHECK(seen[1].c_str() == parsed.refusal);
    }
}

TEST_CASE("what is called wrongly says what to do")
{
    database const db{this_service};
    auto const says = [&](std::string const& sql, char const* words) {
        auto const said = error_of(db, sql);
        CAPTURE(sql);
        CAPTURE(said);
        CHECK(said.find(words) != std::string::npos);
    };
    says("SELECT skald.host('orders', '{}')", "belongs to the service payments");
    says("SELECT skald.host('payments', '[]')", "steps are a JSON object");
    says("SELECT skald.host('payments', '{\"charge\": {\"kind\": \"pivot\"}}')",
         "step charge: its name is not DEFINITION/STEP");
    says("SELECT skald.host('payments', '{\"a/b\": {}}')", "step a/b: its kind is missing");
    says("SELECT skald.host('payments', '{\"a/b\": {\"kind\": \"fast\"}}')", "step a/b: kind can't be fast");
    says("SELECT skald.host('payments', '{\"a/b\": {\"kind\": \"pivot\", \"attempts\": 0}}')", "attempts can't be 0");
    says("SELECT skald.host('payments', '{\"a/b\": {\"kind\": \"pivot\", \"speed\": 1}}')", "speed can't be 1");
    says("SELECT skald.host('payments', '{\"a/b\": {\"kind\": \"retriable\", \"deadline_ms\": 5}}')",
         "this one is retriable");
    says("SELECT skald.take('charge', '[]', '{}', '{}')", "headers as a JSON object");
    says("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT skald.take('charge', " + std::string{charge} + ", '{}', '{}')",
         "this one is SERIALIZABLE");
    says(taken_and("SELECT skald.take('charge', " + std::string{charge} + ", '{}', '{}')"), "something else was taken");
    says(taken_and("COMMIT"), "a step ran COMMIT itself");
    says(taken_and(std::string{"SELECT skald.done("} + it + ", 'no JSON')"), "done() needs the data");
    says(taken_and(std::string{"SELECT skald.done("} + it + ", 'false')"), "are an object, and what the step makes");
    says(taken_and(std::string{"SELECT skald.done("} + it + ", '{}'), skald.done(" + it + ", '{}')"),
         "has ended already");
    says(taken_and(std::string{"SELECT skald.publish("} + it + ", 'mail', 'a:b', '')"),
         "must not be empty or have a ':'");
    says(taken_and(std::string{"SELECT skald.fail("} + it + ", '{}', 'broke')"), "ROLLBACK first");
    says(then_rolled_back(db, "SELECT skald.done($1, '{}')"), "was ended by the step itself");
    says(then_rolled_back(db, "SELECT skald.fail($1, '[]', 'broke')"), "not the body that came with charge");
    says(then_rolled_back(db, "SELECT skald.give_up($1, '{}', 'late', '')"), "not as `late`");
    says("SELECT skald.done('{}', '{}')", "not what skald.take() gave");
    CHECK(db.one("SELECT count(*) FROM skald.idempotency") == "0");
    CHECK(db.one("SELECT count(*) FROM skald.outbox") == "0");
}

TEST_CASE("a rejection that can't be is a failed attempt of its own delivery")
{
    database const db{this_service};
    CHECK(db.one(then_rolled_back(db, "SELECT skald.reject($1, '{}', 'no')")) == "step.failed");
    CHECK(db.one("SELECT status || ': ' || error FROM skald.idempotency") ==
          "retrying: charge can't be rejected, its saga can only go forward: no");
}

TEST_CASE("a transaction in which something is taken is durable and ends, whatever its session's settings are")
{
    database const db{this_service};
    auto const taken = db.one(then_rolled_back(db, "SELECT $1"));
    for (auto const& taking :
         {"take('charge', " + std::string{charge} + ", '{}', " + steps + ")",
          std::string{"take('skald.signal', '{}', '', '{}')"}, "fail('" + taken + "', '{}', 'broke')",
          std::string{"take_request('', ARRAY['k'], 'POST', '/', '')"}}) {
        CAPTURE(taking);
        pqxx::connection c{db.url()};
        pqxx::nontransaction tx{c};
        auto const settings = [&] {
            std::string all;
            for (auto const* name : {"synchronous_commit", "client_min_messages", "client_connection_check_interval",
                                     "lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"})
                all += tx.exec(std::string{"SHOW "} + name)[0][0].as<std::string>() + ' ';
            return all;
        };
        tx.exec("SET synchronous_commit = off; SET client_min_messages = error");
        tx.exec("BEGIN; SELECT skald." + taking);
        CHECK(settings() == "on warning 1s 5s 30s 30s ");
        tx.exec("ROLLBACK");
        CHECK(settings() == "off error 0 0 0 0 ");
    }
}
