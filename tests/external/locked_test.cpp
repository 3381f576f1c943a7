// Rows of started steps that a transaction has locked: nobody else waits for them, and the session that stands still in
// such a transaction is ended after the lease.
#include "external/bank.hpp"
#include "support/session.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace skald::test;
using skald::ports::release_result;
using skald::ports::started_kind;
using skald::testing::wait_until;

namespace {

constexpr auto own_limit = "SHOW idle_in_transaction_session_timeout";

std::string lock_of(std::string const& key)
{
    return "BEGIN; SELECT 1 FROM skald.started WHERE key = '" + key + "' FOR UPDATE";
}

/// Two calls that an owner of the test's own has made.
std::vector<skald::ports::started_steps::taken> take_two(bank_services& all)
{
    all.host();
    for (auto const* const key : {"a", "b"}) all.start(buy, purchase{"p", 100}, key);
    all.run();
    auto rows = all.at("till").started().take("an owner", started_kind::call, "", 2);
    REQUIRE(rows.size() == 2);
    if (rows.front().id.saga.key != "a") std::swap(rows.front(), rows.back());
    return rows;
}

}  // namespace

TEST_CASE("a lease whose row is locked is not waited for: it is still its owner's, and the others are extended")
{
    bank_services all;
    auto const rows = take_two(all);
    auto& till = all.at("till");
    session other{till.db};
    other.run(lock_of("a"));
    std::vector<skald::ports::started_steps::held> const both{{rows[0].id, R"({"page": 1})"}, {rows[1].id, ""}};
    auto const met = till.started().renew(both);
    CHECK(met[0].is_ours);
    CHECK_FALSE(met[0].is_extended);
    CHECK(met[1].is_ours);
    CHECK(met[1].is_extended);
    CHECK(till.started().release({rows[0].id, 0ms, true}) == release_result::locked);
    CHECK(till.started().release({rows[1].id, 0ms, true}) == release_result::released);
    other.run("ROLLBACK");
    CHECK(till.db.one("SELECT checkpoint FROM skald.started WHERE key = 'a'") == "");
    CHECK(till.started().renew({both.data(), 1}).front().is_extended);
    CHECK(till.db.one("SELECT checkpoint FROM skald.started WHERE key = 'a'") == R"({"page": 1})");
    CHECK(till.started().release({rows[0].id, 0ms, true}) == release_result::released);
    CHECK(till.started().release({rows[0].id, 0ms, true}) == release_result::not_ours);
}

TEST_CASE("a row that is locked when its call has broken is given back later, and the other calls go on")
{
    bank_services all;
    all.at("till").options_of_steps.call.look_first = 1ms;
    all.host();
    auto const& db = all.at("till").db;
    session other{db};
    all.gateway.after_charge = [&](auto const& key) {
        if (key != "a:capture") return;
        other.run(lock_of("a"));
        throw std::runtime_error{"timed out"};
    };
    all.start(buy, purchase{"p", 100}, "a");
    all.run();
    running_calls process{all.at("till"), {}, 1};
    REQUIRE(wait_until([&] { return all.gateway.charges.size() == 1; }));
    all.start(buy, purchase{"p", 100}, "b");
    all.run();
    CHECK(wait_until([&] { return all.gateway.charges.size() == 2; }));
    CHECK(wait_until([&] { return db.one("SELECT count(*) FROM skald.started") == "1"; }));
    other.run("ROLLBACK");
    CHECK(wait_until([&] { return db.one("SELECT count(*) FROM skald.started") == "0"; }));
    CHECK(all.gateway.charges.size() == 2);
}

TEST_CASE("the transaction that records an end may stand still for its lease, or for as long as any session may")
{
    for (auto const& [lease, limit] : {std::pair{1500ms, "1500ms"}, std::pair{15'000ms, "15s"}, {90'000ms, "30s"}}) {
        bank_services all;
        all.at("till").options_of_steps.call.lease = lease;
        all.at("till").options_of_steps.call.silence = 2min;
        std::string seen;
        capture charging{all.gateway};
        charging.settles = [&](skald::step_context& ctx, purchase&, receipt const&) -> skald::outcome {
            seen = ctx.sql(own_limit)[0][0].c_str();
            return skald::done();
        };
        all.host(charging);
        all.start(buy, purchase{"p", 100}, "k");
        all.run_all();
        CHECK(seen == limit);
        CHECK(all.saga_status("k") == "completed");
    }
}

TEST_CASE("a settle that stands still for longer than its lease is ended, named, and run again")
{
    bank_services all;
    all.at("till").options_of_steps.call.lease = 1s;
    std::atomic<int> runs{0};
    capture charging{all.gateway};
    charging.settles = [&](skald::step_context& ctx, purchase& p, receipt const& r) -> skald::outcome {
        note(ctx, "settle");
        // Until the server has ended this session, and another one has the row.
        auto const& db = all.at("till").db;
        if (++runs == 1)
            CHECK(wait_until([&] {
                return db.one("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = "
                              "'idle in transaction'") == "0";
            }));
        p.receipt = r.number;
        return skald::done();
    };
    all.host(charging);
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    {
        running_calls process{all.at("till")};
        REQUIRE(wait_until([&] { return all.record("capture").starts_with("completed"); }));
    }
    CHECK(runs >= 2);
    CHECK(all.gateway.charges.size() == 1);
    CHECK(all.effects("till") == "prepare\nsettle");
}

TEST_CASE("an answer and a signal given in somebody's transaction limit its silence too, for that transaction")
{
    bank_services all;
    auto const rows = take_two(all);
    auto& till = all.at("till");
    session other{till.db};
    CHECK(other.run(
              "BEGIN; SELECT skald.resolve_step('', 'a', 'capture', '{\"happened\": {\"number\": \"r\"}}', '')") == "");
    CHECK(other.run(own_limit) == "15s");
    CHECK(other.run("SELECT count(*) FROM skald.audit WHERE verb = 'saga resolve'") == "1");
    other.run("ROLLBACK");
    CHECK(other.run(own_limit) == "0");
    // Nothing is locked by one that is kept for later.
    other.run("BEGIN");
    CHECK(other.run("SELECT skald.signal('', 'other', 'approve', '{}')") == "kept");
    CHECK(other.run(own_limit) == "0");
}

TEST_CASE("a command that is given in somebody's transaction limits its silence where a step of the saga is started")
{
    bank_services all;
    take_two(all);
    auto& shop = all.at("shop").db;
    // At the home: as if the step were its own.
    shop.run(
        "INSERT INTO skald.started (scope, key, step, kind, due_at, lease, message_id, type, content_type, body, "
        "headers) VALUES ('', 'a', 'capture', 'call', now() + '1 h', '15 s', 'm', 't', 'application/json', '', '{}')");
    session home{shop}, till{all.at("till").db};
    for (auto const* const action : {"pause", "cancel"}) {
        CHECK(home.run("BEGIN; SELECT skald.request_control('" + std::string{action} + "', '', 'a') ? 'refused'") ==
              "f");
        CHECK(home.run(own_limit) == "15s");
        home.run("ROLLBACK");
        CHECK(home.run("BEGIN; SELECT skald.request_control('" + std::string{action} + "', '', 'b') ? 'refused'") ==
              "f");
        CHECK(home.run(own_limit) == "0");
        home.run("ROLLBACK");
    }
    CHECK(till.run(
              "BEGIN; SELECT skald.take_control(jsonb_build_object('id', gen_random_uuid(), 'scope', '', 'key', 'a', "
              "'home', 'shop', 'action', 'cancel', 'requested_at', clock_timestamp(), 'by', 'me'))") == "taken");
    CHECK(till.run(own_limit) == "15s");
}
