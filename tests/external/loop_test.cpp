// The threads that make calls: leases, owners, limits, the breaker.
#include "external/bank.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;
using namespace skald::test;
using skald::testing::wait_until;

namespace {

/// Starts that many sagas, up to their calls.
void start_many(bank_services& all, int count)
{
    for (int n = 0; n < count; ++n) all.start(buy, purchase{"p", 100}, "k" + std::to_string(n));
    all.run();
}

/// Its bank refuses every connection, and has a name.
class ill_bank final : public bank_services
{
public:
    ill_bank()
    {
        at("till").options_of_steps.call.dependency = "bank";
        at("till").options_of_steps.retry.attempts_max = 100;
        host();
        gateway.before_charge = [this](auto const&) {
            if (is_ill) throw skald::did_not_happen_error{"connection refused"};
        };
    }

    std::atomic<bool> is_ill{true};
};

std::string started_rows(bank_services& all)
{
    return all.at("till").db.one("SELECT count(*) FROM skald.started");
}

}  // namespace

TEST_CASE("calls are made side by side, no more than their dependency takes, each once")
{
    bank_services all;
    all.at("till").options_of_steps.call.dependency = "bank";
    all.host();
    std::mutex mutex;
    int now = 0, most = 0;
    all.gateway.before_charge = [&](auto const&) {
        std::lock_guard const lock{mutex};
        most = std::max(most, ++now);
    };
    all.gateway.after_charge = [&](auto const&) {
        std::lock_guard const lock{mutex};
        --now;
    };
    start_many(all, 40);
    {
        running_calls process{all.at("till"), {{"bank", {.at_a_time = 3}}}, 8};
        REQUIRE(wait_until([&] { return started_rows(all) == "0"; }));
    }
    all.run();
    CHECK(all.gateway.charges.size() == 40);
    CHECK(most <= 3);
    CHECK(all.at("shop").db.one("SELECT count(*) FROM skald.saga WHERE status = 'completed'") == "40");
}

TEST_CASE("a call that is silent for too long is somebody else's, and what it does after that is refused")
{
    bank_services all;
    auto& call = all.at("till").options_of_steps.call;
    call.lease = 1s;
    call.silence = 1s;
    call.look_first = call.look_longest = 1ms;
    all.host();
    std::atomic<bool> first{true}, may_return{false};
    all.gateway.after_charge = [&](auto const&) {
        if (first.exchange(false)) (void)wait_until([&] { return may_return.load(); });
    };
    start_many(all, 1);
    running_calls process{all.at("till")};
    // Another thread asks, and records that it has happened.
    REQUIRE(wait_until([&] { return all.record("capture") == "completed|1"; }));
    CHECK(all.gateway.looks >= 1);
    may_return = true;
    REQUIRE(wait_until([&] { return all.at("till").log().has("step.outdated"); }));
    CHECK(all.gateway.charges.size() == 1);
    CHECK(all.effects("till") == "prepare\nsettle r-1");
}

TEST_CASE("what was taken longer ago than its lease is not called")
{
    bank_services all;
    all.at("till").options_of_steps.call.lease = 1s;
    all.host();
    start_many(all, 1);
    auto const& db = all.at("till").db;
    // As if the process was stopped while it took it: the disturbance itself.
    db.run(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1.1); RETURN NEW; END $$;"
        "CREATE TRIGGER slow BEFORE UPDATE ON skald.started FOR EACH ROW WHEN (NEW.owner IS NOT NULL AND "
        "NEW.fence > OLD.fence) EXECUTE FUNCTION slow()");
    running_calls process{all.at("till")};
    REQUIRE(wait_until([&] { return std::stoi(db.one("SELECT fence FROM skald.started")) >= 2; }));
    CHECK(all.gateway.charges.empty());
    CHECK(all.gateway.looks == 0);
    db.run("DROP TRIGGER slow ON skald.started");
    REQUIRE(wait_until([&] { return started_rows(all) == "0"; }));
    CHECK(all.gateway.charges.size() == 1);
}

TEST_CASE("a breaker that is open keeps calls waiting, which costs no attempt, and closes when the other side is well")
{
    ill_bank all;
    start_many(all, 12);
    running_calls process{all.at("till"), {{"bank", {.at_a_time = 4, .calls_min = 6, .open_first = 200ms}}}};
    auto const state = [&] {
        for (auto const& one : process.loop().dependencies())
            if (one.name == "bank") return one.status.state;
        return skald::core::breaker_state::closed;
    };
    REQUIRE(wait_until([&] { return state() == skald::core::breaker_state::open; }));
    CHECK(all.at("till").log().has("dependency.changed"));
    // Who looks from outside sees it, while it lasts.
    auto const noted =
        "SELECT count(*) FROM skald.breaker WHERE dependency = 'bank' AND state = 'open' AND failed > 0 AND "
        "why <> '' AND owner <> ''";
    REQUIRE(wait_until([&] { return all.at("till").db.one(noted) == "1"; }));
    auto const calls = all.at("till").db.one("SELECT sum(calls) FROM skald.started");
    CHECK(started_rows(all) == "12");
    all.is_ill = false;
    REQUIRE(wait_until([&] { return started_rows(all) == "0"; }));
    REQUIRE(wait_until([&] { return all.at("till").db.one("SELECT count(*) FROM skald.breaker") == "0"; }));
    CHECK(all.gateway.charges.size() == 12);
    // Of the twelve some were never called while it was ill.
    CHECK(std::stoi(calls) < 12 * 3);
}

TEST_CASE("while a breaker is open, what ends without the other side does not wait for it")
{
    ill_bank all;
    start_many(all, 3);
    auto const& till = all.at("till").db;
    running_calls process{all.at("till"), {{"bank", {.at_a_time = 4, .calls_min = 3, .open_first = 1h}}}};
    auto const ready = [&] {
        return process.loop().dependencies().at(0).status.state == skald::core::breaker_state::open &&
               till.one("SELECT count(*) FROM skald.started WHERE owner IS NOT NULL") == "0";
    };
    REQUIRE(wait_until(ready));
    all.is_ill = false;  // and nobody asks

    till.run("UPDATE skald.started SET in_doubt = true WHERE key = 'k0'");
    CHECK(till.one("SELECT coalesce(skald.resolve_step('', 'k0', 'capture', '{\"happened\": {\"number\": \"r-7\"}}', "
                   "'the bank said so', 'eve'), '')") == "");
    REQUIRE(wait_until([&] { return started_rows(all) == "2"; }));
    CHECK(all.effects("till").find("settle r-7") != std::string::npos);

    all.at("shop").db.run("SELECT skald.request_control('cancel', '', 'k1')");
    all.run();
    REQUIRE(wait_until([&] { return started_rows(all) == "1"; }));
    CHECK(till.one("SELECT status FROM skald.idempotency WHERE key = 'k1' AND step = 'capture'") == "cancelled");

    till.run(
        "UPDATE skald.started SET ends_at = clock_timestamp(), due_at = clock_timestamp()");  // in vain: nothing ends it
    CHECK(wait_until([&] { return till.one("SELECT ends_at IS NULL AND NOT in_doubt FROM skald.started") == "t"; }));
    CHECK(all.gateway.charges.empty());
}

TEST_CASE("a call in doubt is shown as unknown in time, also while its breaker is open and nobody is asked")
{
    bank_services all;
    all.at("till").options_of_steps.call.dependency = "bank";
    all.at("till").options_of_steps.call.unknown_after = 50ms;
    all.at("till").options_of_steps.call.look_first = 1ms;
    all.host();
    all.gateway.after_charge = [](auto const&) { throw std::runtime_error{"timed out"}; };
    start_many(all, 1);
    running_calls process{all.at("till"), {{"bank", {.calls_min = 1, .open_first = 1h}}}};
    auto const& till = all.at("till").db;
    REQUIRE(wait_until(
        [&] { return till.one("SELECT status FROM skald.idempotency WHERE step = 'capture'") == "unknown"; }));
    CHECK(process.loop().dependencies().at(0).status.state == skald::core::breaker_state::open);
    CHECK(all.gateway.looks == 0);
    CHECK(till.one("SELECT unknown_at IS NULL AND in_doubt FROM skald.started") == "t");
    all.run();
    CHECK(all.saga_status("k0") == "unknown");
    CHECK(all.at("shop").db.one("SELECT reason FROM skald.saga") ==
          "what a call has done is not known: the other side can't be asked now");
}

TEST_CASE("what is known of a step that no process has any more is kept, and its row says so")
{
    bank_services all;
    all.host();
    start_many(all, 2);
    auto const& till = all.at("till").db;
    till.run("UPDATE skald.started SET headers = headers || jsonb_build_object('x-idempotency-key', key || ':gone')");
    till.run("UPDATE skald.started SET in_doubt = true, calls = 3, looks = 189, tries = 6 WHERE key = 'k0'");
    running_calls process{all.at("till")};
    CHECK(wait_until([&] {
        return till.one("SELECT count(*) FROM skald.started"
                        " WHERE error = 'the process that took it does not have this step' AND owner IS NULL") == "2";
    }));
    CHECK(till.rows("SELECT in_doubt, calls, looks, tries FROM skald.started ORDER BY key") == "t|3|189|6\nf|0|0|0");
    CHECK(all.at("till").log().has("started.not_hosted"));
    CHECK(all.gateway.charges.empty());
}

TEST_CASE("a process that ends leaves no breaker behind, and one that dies is forgotten by whoever writes one later")
{
    ill_bank all;
    auto const& db = all.at("till").db;
    db.run("INSERT INTO skald.breaker (owner, dependency, state, why, ok, failed, slow, seen_at) VALUES"
           " ('long dead', 'bank', 'open', 'x', 0, 1, 0, now() - interval '2 h'), ('alive', 'bank', 'open', 'x', 0, 1, "
           "0, now())");
    start_many(all, 12);
    {
        running_calls process{all.at("till"), {{"bank", {.at_a_time = 4, .calls_min = 6, .open_first = 60s}}}};
        REQUIRE(
            wait_until([&] { return db.one("SELECT count(*) FROM skald.breaker WHERE owner = 'a process'") == "1"; }));
        CHECK(db.one("SELECT count(*) FROM skald.breaker WHERE owner = 'long dead'") == "0");
    }
    CHECK(db.one("SELECT owner FROM skald.breaker") == "alive");
}

TEST_CASE("a process that stops gives back what it has not called, and asks what it calls to end")
{
    bank_services all;
    all.host();
    start_many(all, 20);
    std::atomic<int> running{0};
    all.gateway.before_charge = [&](auto const&) { ++running; };
    {
        running_calls process{all.at("till"), {}, 1};
        REQUIRE(wait_until([&] { return running > 0; }));
    }
    // Nothing is owned, and nothing is in doubt: another process goes on at once.
    CHECK(all.at("till").db.one("SELECT count(*) FROM skald.started WHERE owner IS NOT NULL OR in_doubt") == "0");
    {
        running_calls process{all.at("till")};
        REQUIRE(wait_until([&] { return started_rows(all) == "0"; }));
    }
    CHECK(all.gateway.charges.size() == 20);
}
