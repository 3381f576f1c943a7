// What a home makes of other services' reports, many in one message.
#include "support/database.hpp"
#include "support/session.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

#include <future>
#include <string>

namespace {

class home
{
public:
    home()
    {
        for (char const* key : {"a", "b", "c", "d"})
            db.run(std::string{"INSERT INTO skald.saga (scope, key, definition, data, itinerary) VALUES ('', '"} + key +
                   "', 'd', '{}', '')");
    }

    /// `saga` and `reason`: as in SQL.
    static std::string report(std::string const& key, std::string const& step, std::string const& status, int second,
                              std::string const& saga = "NULL", std::string const& reason = "NULL")
    {
        return "jsonb_build_object('scope', '', 'key', '" + key + "', 'step', '" + step +
               "', 'service', 's', 'status', '" + status + "', 'attempts', 1, 'at', '2026-01-31T12:00:0" +
               std::to_string(second) + "Z', 'saga', " + saga + ", 'reason', " + reason + ")";
    }

    void note(std::string const& reports) const
    {
        db.run("SELECT skald.record_progress(jsonb_build_array(" + reports + "))");
    }

    std::string sagas() const
    {
        return db.rows(
            "SELECT key, status, coalesce(reason, '-'), finished_at IS NOT NULL FROM skald.saga ORDER BY key");
    }

    /// Runs both at once, and lets go of saga b when both wait: whoever takes the sagas as they come has c, or a.
    void meet(std::string const& one, std::string const& other) const
    {
        skald::test::session keeper{db}, first{db}, second{db};
        keeper.run("BEGIN");
        keeper.run("SELECT FROM skald.saga WHERE key = 'b' FOR UPDATE");
        auto with_one = std::async(std::launch::async, [&] { first.run(one); });
        wait_until_waiting(1);
        auto with_other = std::async(std::launch::async, [&] { second.run(other); });
        wait_until_waiting(2);
        keeper.run("COMMIT");
        CHECK_NOTHROW(with_one.get());
        CHECK_NOTHROW(with_other.get());
    }

    void wait_until_waiting(int sessions) const
    {
        while (db.one("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                      "pg_blocking_pids(pid) <> '{}'") != std::to_string(sessions))
            std::this_thread::yield();
    }

    skald::test::database const db{"s"};
};

}  // namespace

TEST_CASE("a report that could not be shown, or is no report, is parked with a reason that says so")
{
    skald::test::stepped_shop s;
    s.order("1");
    char const* const bad[]{R"([{"at": "10000-01-01T00:00:00Z"}])",
                            R"([{"at": "infinity"}])",
                            R"([{"at": "-infinity"}])",
                            R"([{"attempts": -1}])",
                            R"({})",
                            R"([])",
                            R"([7])",
                            R"(["x"])"};
    for (std::string const text : bad) {
        CAPTURE(text);
        auto body = nlohmann::json::parse(text);
        if (body.is_array() && !body.empty() && body[0].is_object()) {
            auto const bad_member = body[0];
            body[0] =
                nlohmann::json::parse(R"({"scope": "", "key": "1", "step": "charge-payment", "service": "payments",
                                                "status": "completed", "attempts": 1, "at": "2026-01-31T12:00:00Z"})");
            body[0].update(bad_member);
        }
        skald::core::message m;
        m.type = "skald.progress";
        m.id = "1:charge-payment.progress";
        m.body = body.dump();
        s.at("orders").process(skald::test::delivery_of(m));
    }
    CHECK(
        s.at("orders").db.one("SELECT count(*) FROM skald.parked WHERE reason = 'malformed' AND (error LIKE "
                              "'%attempts_are_counted%' OR error LIKE '%at_is_between_years_1_and_9999%' OR error LIKE "
                              "'%a message skald.progress is a JSON array of one object or more%')") == "8");
    CHECK(s.at("orders").db.one("SELECT count(*) FROM skald.progress WHERE at > '2100-01-01' OR attempts < 0") == "0");
}

TEST_CASE("reports of several sagas in one message: each goes as its own say, whatever stands beside them")
{
    home h;
    h.note(home::report("b", "pay", "rejected", 1, "'compensating'", "'no money'") + ", " +
           home::report("a", "pay", "completed", 1) + ", " + home::report("a", "ship", "completed", 2, "'completed'") +
           ", " + home::report("c", "pay", "completed", 1, "'running'") + ", " +
           home::report("b", "make.compensate", "completed", 2, "'compensated'"));
    CHECK(h.sagas() == "a|completed|-|t\nb|compensated|no money|t\nc|running|-|f\nd|running|-|f");
    CHECK(h.db.one("SELECT count(*) FROM skald.progress") == "5");
}

TEST_CASE("what has ended stays as it ended, and a saga that was stuck completes like any other")
{
    home h;
    h.note(home::report("a", "ship", "completed", 1, "'completed'"));
    auto const finished = h.db.one("SELECT finished_at FROM skald.saga WHERE key = 'a'");
    h.note(home::report("a", "ship", "completed", 1, "'completed'") + ", " +
           home::report("a", "pay", "rejected", 1, "'compensating'", "'late'"));
    CHECK(h.db.one("SELECT finished_at FROM skald.saga WHERE key = 'a'") == finished);

    h.note(home::report("b", "ship", "parked", 1, "'stuck'", "'broken'"));
    CHECK(h.db.rows("SELECT status, reason FROM skald.saga WHERE key = 'b'") == "stuck|broken");
    h.note(home::report("b", "ship", "completed", 2, "'completed'"));
    h.db.run("UPDATE skald.saga SET status = 'compensated', reason = 'no', finished_at = now() WHERE key = 'c'");
    h.note(home::report("c", "ship", "completed", 2, "'completed'"));
    CHECK(h.sagas() == "a|completed|-|t\nb|completed|-|t\nc|compensated|no|t\nd|running|-|f");
}

TEST_CASE("many at once go as one after the other would, and none goes on behind its end")
{
    home h;
    h.db.run("SELECT skald.advance_many(array_fill(''::text, '{7}'), '{d,c,b,a,b,c,d}', "
             "'{running,compensated,completed,compensated,compensating,compensating,completed}', "
             "'{NULL,no,NULL,NULL,late,late,NULL}')");
    CHECK(h.sagas() == "a|compensated|-|t\nb|completed|-|t\nc|compensated|no|t\nd|completed|-|t");
}

TEST_CASE("whatever a saga's state, its steps and what is said of it, many at once do what one after the other does")
{
    home h;
    h.db.run(
        "CREATE TABLE item AS SELECT DISTINCT concat_ws('-', s, r, i, a, ar, b, br) AS key, s, r, i, a, ar, b, br"
        "  FROM unnest('{running,compensating,stuck}'::skald.saga_status[]) AS s, unnest('{NULL,was}'::text[]) AS r,"
        "       unnest('{completed,rejected,parked}'::skald.step_status[]) AS i,"
        "       unnest('{running,compensating,stuck,completed,compensated}'::text[]) AS a, "
        "unnest('{NULL,one}'::text[]) AS ar,"
        "       unnest('{running,compensating,stuck,completed,compensated}'::text[]) AS b, "
        "unnest('{NULL,two}'::text[]) AS br;"
        "INSERT INTO skald.saga (scope, key, definition, data, itinerary, status, reason)"
        "  SELECT '', key, 'd', '{}', '', s, r FROM item;"
        "INSERT INTO skald.idempotency (scope, key, step, status) SELECT '', key, 'pay', i FROM item");
    auto const sagas =
        "SELECT string_agg(concat_ws(' ', key, 'is', status, reason, finished_at IS NOT NULL), ',' ORDER BY key) "
        "FROM skald.saga";
    skald::test::session session{h.db};
    session.run("BEGIN");
    session.run(
        "SELECT skald.advance(m.s, m.k, m.n, m.y) FROM (SELECT '' AS s, key AS k, a AS n, ar AS y, 1 AS o FROM item "
        "UNION ALL SELECT '', key, b, br, 2 FROM item ORDER BY o) AS m");
    auto const one_by_one = session.run(sagas);
    session.run("ROLLBACK");
    h.db.run("SELECT skald.advance_many(array_agg(''::text), array_agg(m.k), array_agg(m.n), array_agg(m.y)) FROM "
             "(SELECT key AS k, a AS n, ar AS y, 1 AS o FROM item UNION ALL SELECT key, b, br, 2 FROM item ORDER BY o) "
             "AS m");
    CHECK(h.db.one(sagas) == one_by_one);
}

TEST_CASE("what a walk back was for is kept where its steps and its end come at once")
{
    home h;
    h.db.run("INSERT INTO skald.idempotency (scope, key, step, status) VALUES ('', 'a', 'pay', 'rejected')");
    h.db.run("SELECT skald.advance_many('{\"\",\"\"}', '{a,a}', '{compensating,compensated}', '{no money,NULL}')");
    CHECK(h.db.rows("SELECT status, reason FROM skald.saga WHERE key = 'a'") == "compensated|no money");
}

TEST_CASE("two that move the same sagas in opposite orders wait for each other, and do not deadlock")
{
    auto const many = [](char const* keys, char const* states) {
        return "SELECT skald.advance_many('{\"\",\"\",\"\"}', '" + std::string{keys} + "', '" + states +
               "', '{no,no,no}')";
    };
    auto const told = [](char const* first, char const* second, char const* third) {
        return "SELECT skald.record_progress(jsonb_build_array(" +
               home::report(first, "ship", "completed", 1, "'completed'") + ", " +
               home::report(second, "pay", "rejected", 1, "'compensating'") + ", " +
               home::report(third, "pay.compensate", "completed", 1, "'compensated'") + "))";
    };
    SUBCASE("all of them end")
    {
        home{}.meet(many("{c,b,a}", "{completed,completed,compensated}"),
                    many("{a,b,c}", "{completed,completed,completed}"));
    }
    SUBCASE("some go on")
    {
        home{}.meet(many("{c,b,a}", "{compensating,running,completed}"),
                    many("{a,b,c}", "{running,compensated,running}"));
    }
    SUBCASE("reports of others")
    {
        home{}.meet(told("c", "b", "a"), told("a", "d", "b"));
    }
    SUBCASE("what was forgotten")
    {
        home h;
        h.db.run("UPDATE skald.saga SET status = 'completed', finished_at = '2026-01-31', expiring = '{s,t}'");
        auto const forgotten = [](std::string const& service, std::string const& keys) {
            return "SELECT skald.record_expired(jsonb_agg(jsonb_build_object('scope', '', 'key', k, 'service', '" +
                   service + "', 'ended_at', timestamptz '2026-01-31') ORDER BY o)) FROM unnest('" + keys +
                   "'::text[]) WITH ORDINALITY AS k(k, o)";
        };
        h.meet(forgotten("s", "{c,b,a}"), forgotten("t", "{a,b,c}"));
        CHECK(h.db.one("SELECT count(*) FROM skald.saga WHERE expiring = '{}'") == "3");
    }
}

TEST_CASE("every saga of which a report waits is busy, also where one message reports many")
{
    skald::test::stepped_shop s;
    for (auto const* key : {"1", "2", "3"}) s.order(key, 1, 1'000'000'000);
    s.at("orders").relay_due();
    s.at("orders").process_all();
    s.at("orders").relay_due();
    s.at("payments").process_all();
    auto const& db = s.at("payments").db;
    db.run("DELETE FROM skald.outbox WHERE type <> 'skald.progress'");
    REQUIRE(db.one("SELECT count(*) FROM skald.outbox") == "1");
    CHECK(db.one("SELECT string_agg(key, ' ' ORDER BY key) FROM skald.busy WHERE key IN ('1', '2', '3')") == "1 2 3");
}
