// Deadlines of sagas and steps over real databases. Time passes by moving the test kit's clock, or a deadline; a test
// waits for one only where it is to pass while something runs.
#include "postgres/postgres_store.hpp"
#include "support/guarded.hpp"
#include "support/kit_shop.hpp"
#include "support/stepped_shop.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <future>
#include <set>
#include <thread>

using namespace skald::test;
using namespace std::chrono_literals;

namespace {

class timed_shop : public stepped_shop
{
public:
    void begin(std::chrono::milliseconds deadline)
    {
        start(order_saga::place_order, order_saga::order{"o-1", "ann", "pen", 1, 100},
              {.key = "1", .scope = "", .deadline = deadline});
    }
};

std::string claim(database const& db, std::string const& step, std::string const& deadline,
                  std::string const& more = "")
{
    return db.one("SELECT result || ' ' || held || ' ' || coalesce(cause, '-') || ' ' || coalesce(reason, '-') FROM "
                  "skald.claim(ARRAY[''], ARRAY['k'], ARRAY['" +
                  step +
                  "'], ARRAY[sha256('{}')], deadlines => "
                  "ARRAY[" +
                  deadline + "]::timestamptz[]" + more + ")");
}

constexpr auto passed = "'2020-01-01'", far_away = "clock_timestamp() + interval '1 hour'";

}  // namespace

TEST_CASE("a saga's deadline counts from its start at home, and every message carries it unchanged")
{
    timed_shop s;
    s.begin(10min);
    auto const at = s.at("orders").db.one("SELECT skald.instant(deadline_at) FROM skald.saga");
    CHECK(s.at("orders").db.one("SELECT deadline_at - created_at BETWEEN '9 min' AND '11 min' FROM skald.saga") == "t");
    s.run();
    for (auto const* step : {"create-order", "charge-payment", "arrange-shipping", "confirm-order"})
        CHECK(skald::core::find_header(s.last_sent(step).headers, "x-saga-deadline") == at);
    CHECK(s.saga_status("1") == "completed");
}

TEST_CASE("a saga without a deadline has none, and one that is not in the future is refused")
{
    timed_shop s;
    CHECK_THROWS_AS(s.begin(-1ms), std::invalid_argument);
    s.begin(0ms);
    CHECK(s.at("orders").db.one("SELECT deadline_at IS NULL FROM skald.saga") == "t");
    s.run();
    CHECK(!skald::core::find_header(s.last_sent("charge-payment").headers, "x-saga-deadline"));
    CHECK_THROWS(
        s.at("orders").db.run("SELECT skald.start('', '2', 'd', 1, '{}', 'forward 1/1 a@orders=pivot', sha256('x'), "
                              "'orders', 'a', 'x', '{}', deadline => '0')"));
}

TEST_CASE("a deadline that no message could carry is refused where it is given, and the latest that one can is kept")
{
    timed_shop s;
    CHECK_THROWS_AS(s.begin(std::chrono::years{1001}), std::invalid_argument);
    CHECK_THROWS_AS(s.begin(std::chrono::milliseconds::max()), std::invalid_argument);
    auto const started_for = [&](std::string const& deadline) {
        return "SELECT skald.start('', '2', 'd', 1, '{}', 'forward 1/1 a@orders=pivot', sha256('x'), 'orders', 'a', "
               "'x', '{}', deadline => '" +
               deadline + "')";
    };
    for (auto const* far : {"1001 years", "8000 years", "100000 years"})
        CHECK_THROWS_WITH_AS(s.at("orders").db.run(started_for(far)), doctest::Contains("at most 1000 years"),
                             pqxx::sql_error);
    CHECK(s.at("orders").db.one("SELECT count(*) FROM skald.saga") == "0");

    s.begin(std::chrono::years{1000});
    s.run();
    CHECK(s.saga_status("1") == "completed");
    CHECK(s.parked().empty());
}

TEST_CASE("a version that no message could carry is refused where a saga is started")
{
    timed_shop s;
    CHECK_THROWS_WITH_AS(
        s.at("orders").db.run("SELECT skald.start('', '2', 'd', 0, '{}', 'forward 1/1 a@orders=pivot', sha256('x'), "
                              "'orders', 'a', 'x', '{}')"),
        doctest::Contains("a version is 1 to"), pqxx::sql_error);
}

TEST_CASE("a deadline that passes before a step up to the pivot sends the saga back with that reason")
{
    kit_shop s;
    s.order("1", 1, 100, 10min);
    s.deliver_up_to("arrange-shipping");
    s.kit().advance(11min);
    s.kit().deliver_all();
    CHECK(s.effects() == refunded);
    CHECK(s.kit().saga_is("1", "compensated"));
    CHECK(s.kit().saga("1").reason == "deadline passed");
    CHECK(s.nothing_is_parked());
}

TEST_CASE("a deadline that passes before the first step ends the saga with nothing done")
{
    kit_shop s;
    s.order("1", 1, 100, 10min);
    s.kit().advance(11min);
    s.kit().deliver_all();
    CHECK(s.effects() == " / 1000  / 5 ");
    CHECK(s.kit().saga_is("1", "compensated"));
}

TEST_CASE("a deadline that passes behind the pivot, or on the way back, changes nothing")
{
    kit_shop s;
    s.order("1", 1, 100, 10min);
    s.deliver_up_to("confirm-order");
    s.kit().advance(11min);
    s.kit().deliver_all();
    CHECK(s.kit().saga_is("1", "completed"));

    s.kit().rewind();
    s.order("1", 6, 100, 10min);
    s.deliver_up_to("charge-payment.compensate");
    s.kit().advance(11min);
    s.kit().deliver_all();
    CHECK(s.effects() == refunded);
    CHECK(s.kit().saga("1").reason == "out of stock");
}

TEST_CASE("S01: what has its result before its deadline keeps it, however often it comes after")
{
    database const db;
    CHECK(claim(db, "pay", far_away) == "fresh true - -");
    CHECK(claim(db, "pay", passed) == "duplicate false - -");
}

TEST_CASE("S01: what met its deadline first never runs, also where a copy knows no deadline")
{
    database const db;
    CHECK(claim(db, "pay", passed) == "cancelled true deadline deadline passed");
    db.run("UPDATE skald.idempotency SET status = 'cancelled'");
    CHECK(claim(db, "pay", "NULL") == "cancelled false - -");
}

TEST_CASE("S01: who waits for a running step when the deadline passes learns what that step came to")
{
    for (bool const commits : {true, false}) {
        CAPTURE(commits);
        database const db;
        pqxx::connection c{db.url()};
        pqxx::work running{c};
        running.exec("SELECT * FROM skald.claim(ARRAY[''], ARRAY['k'], ARRAY['pay'], ARRAY[sha256('{}')])");
        auto late = std::async(std::launch::async, [&] { return claim(db, "pay", passed); });
        while (db.one("SELECT count(*) FROM pg_stat_activity WHERE " + std::to_string(c.backendpid()) +
                      " = ANY (pg_blocking_pids(pid))") == "0")
            std::this_thread::yield();
        if (commits) running.commit();
        else running.abort();
        CHECK(late.get() == (commits ? "duplicate false - -" : "cancelled true deadline deadline passed"));
    }
}

TEST_CASE("a deadline that passes while the claim waits counts: it is read behind the wait")
{
    database const db;
    pqxx::connection c{db.url()};
    pqxx::work running{c};
    running.exec("SELECT * FROM skald.claim(ARRAY[''], ARRAY['k'], ARRAY['pay'], ARRAY[sha256('{}')])");
    auto const soon = db.one("SELECT clock_timestamp() + interval '50 ms'");
    auto waiting = std::async(std::launch::async, [&] { return claim(db, "pay", "'" + soon + "'"); });
    REQUIRE(skald::testing::wait_until([&] { return db.one("SELECT clock_timestamp() > '" + soon + "'") == "t"; }));
    running.abort();
    CHECK(waiting.get() == "cancelled true deadline deadline passed");
}

TEST_CASE("deadlines do not apply past the pivot, to a compensation, or to a request; an operator's reason comes first")
{
    database const db;
    CHECK(claim(db, "ship", passed, ", past_pivot => ARRAY[true]") == "fresh true - -");
    CHECK(claim(db, "", passed) == "fresh true - -");
    CHECK(claim(db, "ship.compensate", passed) == "fresh true - -");
    CHECK(claim(db, "other.compensate", passed) == "cancelled true nothing to undo nothing to undo");
    db.run("INSERT INTO skald.control (scope, key, home, action, reason) VALUES ('', 'k', 'orders', 'cancel', 'I said "
           "so')");
    CHECK(claim(db, "pay", passed) == "cancelled true operator I said so");
    db.run("UPDATE skald.control SET action = 'pause'");
    CHECK(claim(db, "third", passed) == "paused false - -");
}

TEST_CASE("each item of a call has its own deadline")
{
    database const db;
    CHECK(db.rows("SELECT ord, result FROM skald.claim(ARRAY['','',''], ARRAY['a','b','c'], ARRAY['s','s','s'], "
                  "ARRAY[sha256('x'),sha256('x'),sha256('x')], deadlines => ARRAY['infinity', '2020-01-01', "
                  "NULL]::timestamptz[])"
                  " ORDER BY ord") == "1|fresh\n2|cancelled\n3|fresh");
}

namespace {

struct errand
{
    std::string id;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(errand, id)

inline constexpr skald::compensatable<errand> leave{"leave", "orders"};
inline constexpr skald::pivot<errand> arrive{"arrive", "orders"};
inline constexpr auto run_errand = skald::define("run-errand", leave, arrive);

struct leaving final : skald::compensatable_step<errand>
{
    skald::outcome execute(skald::step_context&, errand&) const override { return skald::done(); }
    void compensate(skald::step_context&, errand&) const override {}
};

struct arriving final : skald::pivot_step<errand>
{
    explicit arriving(std::function<skald::outcome()> w) : what{std::move(w)} {}
    skald::outcome execute(skald::step_context&, errand&) const override { return what(); }
    std::function<skald::outcome()> what;
};

/// A saga whose pivot does not get done, under a policy that waits for hours.
class errands
{
public:
    errands(skald::retry policy, std::function<skald::outcome()> what)
    {
        skald::service orders{"orders"};
        orders.host(run_errand, leave, leaving{})
            .host(run_errand, arrive, arriving{std::move(what)}, {.retry = policy});
        kit.add(std::move(orders));
        kit.start(run_errand, errand{"e"}, {.key = "k"});
    }

    std::string one(std::string const& sql) { return kit.ask("orders", sql).at(0); }
    std::string waiting(std::string const& what) { return one("SELECT " + what + " FROM skald.outbox"); }

    /// It goes back when the clock has come to its deadline.
    void check_goes_back_at_deadline()
    {
        kit.deliver_all();
        REQUIRE(kit.saga_is("k", "running"));
        CHECK(waiting("due_at BETWEEN (headers->>'x-step-deadline')::timestamptz AND "
                      "(headers->>'x-step-deadline')::timestamptz + interval '10 s'") == "t");
        kit.run_to_the_end();
        CHECK(kit.saga_is("k", "compensated"));
        CHECK(kit.saga("k").reason == "deadline passed");
        CHECK(one("SELECT status FROM skald.idempotency WHERE step = 'arrive'") == "cancelled");
    }

    skald::testing::harness kit;
};

skald::outcome breaks()
{
    throw std::runtime_error{"no bridge"};
}

}  // namespace

TEST_CASE("a step's deadline travels with its retries from the first one on, and stays what it was")
{
    errands e{{.attempts_max = 100, .first = 0ms, .longest = 0ms, .deadline = 1h}, breaks};
    CHECK(e.waiting("headers->>'x-step-deadline'") == "<null>");
    std::set<std::string> deadlines;
    int retries = 0;
    // Attempts without a wait run one after the other: the hundred are used up long before the hour.
    while (e.kit.deliver_next())
        for (auto const& retry : e.kit.ask("orders", "SELECT headers->>'x-step-deadline' FROM skald.outbox "
                                                     "WHERE type = 'arrive' AND headers->>'x-attempt' <> '1'")) {
            ++retries;
            deadlines.insert(retry);
        }
    CHECK(e.kit.saga_is("k", "compensated"));
    CHECK(retries == 99);
    CHECK(deadlines.size() == 1);
    CHECK(deadlines.begin()->size() == 27);
}

TEST_CASE("a step whose deadline comes during its backoff is tried at the deadline, and its saga compensates then")
{
    errands{{.attempts_max = 100, .first = 2h, .longest = 2h, .deadline = 1min}, breaks}.check_goes_back_at_deadline();
}

TEST_CASE("a snooze is cut short by the deadline as well")
{
    errands{{.deadline = 1min}, [] { return skald::snooze(2h); }}.check_goes_back_at_deadline();
}

TEST_CASE("a step that fails, and whose deadline has passed while it ran, compensates its saga at once")
{
    std::function<void()> wait;
    errands e{{.attempts_max = 100, .first = 2h, .longest = 2h, .deadline = 24h}, [&] {
                  if (wait) wait();
                  return breaks();
              }};
    e.kit.deliver_all();
    e.kit.ask("orders", "UPDATE skald.outbox SET due_at = now(), headers = headers || "
                        "jsonb_build_object('x-step-deadline', skald.instant(clock_timestamp() + interval '2 s'))");
    auto const deadline = e.waiting("headers->>'x-step-deadline'");
    wait = [&] {
        REQUIRE(
            skald::testing::wait_until([&] { return e.one("SELECT clock_timestamp() > '" + deadline + "'") == "t"; }));
    };
    e.kit.deliver_all();
    CHECK(e.kit.saga_is("k", "compensated"));
    CHECK(e.one("SELECT status FROM skald.idempotency WHERE step = 'arrive'") == "cancelled");
}

TEST_CASE("a saga that a request starts has its deadline from the server's clock")
{
    database const db;
    skald::postgres::postgres_store store{{.url = db.url()}};
    skald::runtime::memory_source out;
    skald::core::silent_logger log;
    skald::runtime::backlog const backlog;
    skald::entry_detail::known_requests known;
    skald::entry_detail::request_guard guard{"orders", store, known, backlog, out, log};
    skald::http::request r;
    r.method = "POST";
    r.headers = {{"Idempotency-Key", "k"}};
    auto const start_errand = [](skald::http::request_context& ctx) {
        CHECK(ctx.start(run_errand, leaving{}, errand{"e"}, 1h).is_done());
        return skald::http::json_response(202, {});
    };
    CHECK(skald::test::respond_by(guard, known, r, {"POST", "/errands", {}, start_errand}).status == 202);
    CHECK(db.one("SELECT deadline_at - created_at BETWEEN '59 min' AND '61 min' FROM skald.saga") == "t");
    CHECK(db.one("SELECT headers->>'x-saga-deadline' = (SELECT skald.instant(deadline_at) FROM skald.saga) FROM "
                 "skald.outbox") == "t");
}
