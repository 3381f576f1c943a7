// Two sides compared on a real database: rows of a query, and the guard's records.
#include "audit/comparison.hpp"
#include "audit/database.hpp"
#include "support/stepped_shop.hpp"

#include <skald/errors.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

using namespace skald;
using namespace std::chrono_literals;

namespace {

constexpr auto paid_query = "SELECT key, amount, currency, settled FROM paid WHERE at >= $1 AND at < $2";

class two_sides
{
public:
    test::database const db{"payments"};
    postgres::connection connection{audit::options_for(db.url())};
    audit::ours_options ours;
    audit::period over{audit::read_time("", "2026-11-01"), audit::read_time("", "2026-11-02"), 5min};
    std::vector<audit::entry> theirs;
    audit::compared counted;

    two_sides()
    {
        ours.query = paid_query;
        ours.compare = {"amount", "currency", "settled"};
        db.run("CREATE TABLE paid (key text, amount numeric(20, 2), currency text, settled boolean, at timestamptz)");
    }

    void pay(std::string const& key, std::string const& amount, std::string const& at = "2026-11-01T12:00:00Z") const
    {
        db.run("INSERT INTO paid VALUES ('" + key + "', " + amount + ", 'EUR', true, '" + at + "')");
    }
    /// A record of the guard.
    void note(std::string const& key, std::string const& began, std::string const& decided,
              std::string const& step = "charge-payment", std::string const& scope = "") const
    {
        db.run("INSERT INTO skald.idempotency (scope, key, step, home, created_at, updated_at) VALUES ('" + scope +
               "', '" + key + "', '" + step + "', 'orders', '" + began + "', '" + decided + "')");
    }
    void have(std::string const& key, std::string const& amount = "1")
    {
        auto values = std::vector<std::optional<std::string>>{amount, "EUR", "true"};
        values.resize(ours.compare.size());
        theirs.push_back({key, values});
    }

    /// "kind key" for each, in order.
    std::string found()
    {
        audit::sorted_entries sorted;
        for (auto const& one : theirs) sorted.add(one);
        audit::findings all{100};
        counted = audit::compare(connection, sorted, ours, over, "payments", all);
        std::vector<std::string> lines;
        for (auto const& one : all.kept()) lines.push_back(one.kind + ' ' + one.key);
        std::ranges::sort(lines);
        std::string text;
        for (auto const& line : lines) text += (text.empty() ? "" : ", ") + line;
        return text;
    }

    std::string refused()
    try {
        found();
        return {};
    }
    catch (configuration_error const& error) {
        connection.run("ROLLBACK");
        return error.what();
    }
};

bool says(std::string const& text, std::string const& part)
{
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("rows that are equal on both sides are in order, and everything else is named")
{
    two_sides s;
    for (auto const* key : {"same", "gone", "other", "twice"}) s.pay(key, "19.90");
    s.have("same", "19.9");
    s.have("other", "19.91");
    s.have("twice", "19.90");
    s.have("twice", "19.90");
    s.have("theirs");
    CHECK(s.found() == "different other, missing_here theirs, missing_there gone, twice_there twice");
    CHECK(s.counted.theirs == 5);
    CHECK(s.counted.ours == 4);
}

TEST_CASE("amounts are compared to their last digit")
{
    two_sides s;
    s.pay("a", "90071992547409.93");
    s.have("a", "90071992547409.93000000000001");
    CHECK(s.found() == "different a");
}

TEST_CASE("what happened around a border is on one side or the other, and missing on neither")
{
    two_sides s;
    s.pay("before", "1", "2026-10-31T23:56:00Z");  // and over there a minute after midnight, perhaps
    s.pay("first", "1", "2026-11-01T00:00:00Z");
    s.pay("after", "1", "2026-11-02T00:08:00Z");
    s.pay("long after", "1", "2026-11-02T00:11:00Z");
    s.have("before");
    s.have("after");
    CHECK(s.found() == "missing_there first");
    s.have("first");
    CHECK(s.found().empty());
    s.have("long after");
    CHECK(s.found() == "missing_here long after");
    s.theirs.clear();
    CHECK(s.found() == "missing_there first");
}

TEST_CASE("keys are matched byte by byte, in whatever order the database would sort them")
{
    two_sides s;
    for (auto const* key : {"a", "B", "\xc3\xa4", "a-b", "a b", "A", "ab"}) {
        s.pay(key, "1");
        s.have(key);
    }
    CHECK(s.found().empty());
}

TEST_CASE("a query can't change anything")
{
    two_sides s;
    s.db.run("CREATE FUNCTION changing() RETURNS text LANGUAGE sql AS $$ DELETE FROM paid RETURNING key $$");
    s.pay("a", "1");
    s.have("a");
    s.ours.compare.clear();
    s.ours.query = "SELECT changing() AS key";
    says(s.refused(), "read-only");
    s.ours.query = "SELECT key FROM paid; DELETE FROM paid";
    says(s.refused(), "syntax error");
    CHECK(s.db.one("SELECT count(*) FROM paid") == "1");
}

TEST_CASE("a query that does not fit is refused, and says why")
{
    two_sides s;
    s.pay("a", "1");
    s.have("a");
    s.ours.query = "SELECT key, amount, currency FROM paid -- all of them";
    says(s.refused(), "no column settled");
    s.ours.query = "SELECT amount, currency, settled FROM paid";
    says(s.refused(), "key does not exist");
    s.ours.query = "SELECT nothing FROM nowhere";
    says(s.refused(), "--ours: ");
    s.ours.query = "SELECT NULL AS key, 1 AS amount, '' AS currency, true AS settled";
    says(s.refused(), "whose key is NULL");
    s.ours.query = "SELECT key, amount, currency, settled FROM paid -- all of them";
    CHECK(s.refused().empty());
    CHECK(s.found().empty());
}

TEST_CASE("a table of one's own may have any name")
{
    two_sides s;
    s.db.run("CREATE TABLE period AS SELECT 'a' AS key");
    s.ours = {};
    s.ours.query = "SELECT key FROM period";
    s.have("a");
    CHECK(s.found().empty());
}

TEST_CASE("a call that was settled after its period is on both sides, whichever time each gives it")
{
    two_sides s;
    s.ours.step = "charge-payment";
    s.note("late", "2026-11-01T23:50:00Z", "2026-11-02T00:50:00Z");
    s.pay("late:charge-payment", "1", "2026-11-02T00:50:00Z");
    s.have("late:charge-payment");
    CHECK(s.found().empty());
    // Charged before it, and settled within it: with our time we have it, with theirs they were not asked for it.
    s.note("early", "2026-10-31T23:54:00Z", "2026-11-01T00:01:00Z");
    s.pay("early:charge-payment", "1", "2026-11-01T00:01:00Z");
    CHECK(s.found().empty());
}

TEST_CASE("a call that took longer than a period is compared in the one in which it was completed")
{
    two_sides s;
    s.ours = {};
    s.ours.step = "charge-payment";
    s.note("long", "2026-10-28T12:00:00Z", "2026-11-01T12:00:00Z");
    auto const whole = s.over;
    s.over = audit::with_beginnings(s.connection, s.ours, whole);
    CHECK(s.over.since == audit::read_time("", "2026-10-28T12:00:00Z"));
    CHECK(s.over.until == whole.until);
    CHECK(s.found() == "missing_there long:charge-payment");

    // As far as the guard remembers: from before that the other side has what nobody here knows any more.
    s.db.run("UPDATE skald.service SET forgot_before = '2026-10-29T00:00:00Z'");
    CHECK(audit::with_beginnings(s.connection, s.ours, whole).since == audit::read_time("", "2026-10-29T01:05:00Z"));
    s.db.run("UPDATE skald.service SET forgot_before = '2026-11-01T06:00:00Z'");
    CHECK(audit::with_beginnings(s.connection, s.ours, whole).since == whole.since);
}

TEST_CASE("what the guard says is completed and neither list has is missing")
{
    two_sides s;
    s.ours.step = "charge-payment";
    s.pay("a", "1");
    s.have("a");
    s.note("gone", "2026-11-01T12:00:00Z", "2026-11-01T12:00:01Z");
    CHECK(s.found() == "missing_there gone:charge-payment");
}

TEST_CASE("what a message handler did is looked for in its own service's database")
{
    two_sides s;
    s.ours = {};
    s.ours.step = "note-price";
    s.note("a", "2026-11-01T12:00:00Z", "2026-11-01T12:00:01Z", "note-price");
    s.db.run("UPDATE skald.idempotency SET home = '-'");
    audit::sorted_entries none;
    audit::findings all{10};
    audit::compare(s.connection, none, s.ours, s.over, "payments", all);
    REQUIRE(all.total() == 1);
    CHECK(all.kept()[0].service == "payments");
}

TEST_CASE("a charge whose refund is in doubt may be on the other side or not")
{
    two_sides s;
    s.ours = {};
    s.ours.step = "charge-payment";
    s.note("a", "2026-11-01T12:00:00Z", "2026-11-01T12:00:01Z");
    REQUIRE(s.found() == "missing_there a:charge-payment");
    s.note("a", "2026-11-01T13:00:00Z", "2026-11-01T13:00:01Z", "charge-payment.compensate");
    for (std::string const status : {"started", "unknown", "retrying", "parked", "completed"}) {
        CAPTURE(status);
        s.db.run("UPDATE skald.idempotency SET status = '" + status + "' WHERE step = 'charge-payment.compensate'");
        CHECK(s.found().empty());
        s.have("a:charge-payment");
        CHECK(s.found().empty());
        s.theirs.clear();
    }
}

TEST_CASE("what scopes that share a key have does not depend on which comes first")
{
    for (bool const is_first : {false, true}) {
        two_sides s;
        s.ours = {};
        s.ours.step = "charge-payment";
        auto const times = std::pair{"2026-11-01T12:00:00Z", "2026-11-01T12:00:01Z"};
        s.note("a", times.first, times.second, "charge-payment", is_first ? "one" : "two");
        s.note("a", times.first, times.second, "charge-payment", is_first ? "two" : "one");
        s.have("a:charge-payment");
        CHECK(s.found() == "missing_there a:charge-payment");
        s.db.run("UPDATE skald.idempotency SET status = 'rejected' WHERE scope = 'one'");
        CHECK(s.found().empty());
        s.db.run("UPDATE skald.idempotency SET status = 'completed' WHERE scope = 'one'");
        s.db.run("UPDATE skald.idempotency SET status = 'rejected' WHERE scope = 'two'");
        CHECK(s.found().empty());
        s.db.run("UPDATE skald.idempotency SET status = 'completed'");
        s.have("a:charge-payment");
        CHECK(s.found().empty());
        s.have("a:charge-payment");
        CHECK(s.found() == "twice_there a:charge-payment");
    }
}

TEST_CASE("the guard's records are compared by the key that a step gave to the other side, or by the saga's")
{
    test::stepped_shop shop;
    for (auto const* key : {"1", "2", "3", "4"}) shop.order(key, std::string{key} == "4" ? 1000 : 1);
    shop.run();
    shop.at("payments").db.run("UPDATE skald.idempotency SET status = 'started' WHERE key = '3'");

    two_sides s;
    postgres::connection payments{audit::options_for(shop.at("payments").db.url())};
    auto const now = *core::parse_instant(payments.run("SELECT skald.instant(clock_timestamp())")[0][0].c_str());
    s.over = {now - 1h, now + 1h, 5min};
    s.ours = {};
    s.ours.step = "charge-payment";
    auto const found = [&](std::vector<std::string> const& keys) {
        audit::sorted_entries sorted;
        for (auto const& key : keys) sorted.add({key, {}});
        audit::findings all{10};
        audit::compare(payments, sorted, s.ours, s.over, "payments", all);
        std::string text;
        for (auto const& one : all.kept())
            text += one.kind + ' ' + one.key + ' ' + one.service + ' ' + one.command + '\n';
        return text;
    };
    CHECK(found({"1:charge-payment", "9:charge-payment"}) ==
          "missing_there 2:charge-payment orders skald saga show 2\n"
          "still_unknown 3:charge-payment payments skald started list --key 3\n"
          "missing_here 9:charge-payment payments skald saga show 9\n");
    s.ours.by_saga = true;
    CHECK(found({"1", "2", "3"}) ==
          "still_unknown 3 payments skald saga resolve 3 charge-payment happened --result JSON --reason WHY\n");
    s.ours.step = "charge-payment.compensate";
    CHECK(found({"4"}).empty());
    CHECK(found({"1", "4"}) == "missing_here 1 payments skald saga show 1\n");

    // Done before the period and undone within it: a side that lists by the latest change has it, and others have not.
    shop.at("payments")
        .db.run("UPDATE skald.idempotency SET created_at = created_at - interval '9 days', updated_at = "
                "updated_at - interval '9 days' WHERE key = '4' AND step = 'charge-payment'");
    s.ours.step = "charge-payment";
    CHECK(found({"1", "2", "3", "4"}).find(" 4 ") == std::string::npos);
    CHECK(found({"1", "2", "3"}).find(" 4 ") == std::string::npos);
    // Both before it: nobody here has anything to say of it.
    shop.at("payments")
        .db.run("UPDATE skald.idempotency SET updated_at = updated_at - interval '9 days' WHERE key = '4' AND "
                "step = 'charge-payment.compensate'");
    CHECK(found({"1", "2", "3", "4"}).find("missing_here 4 ") != std::string::npos);
}

TEST_CASE("a hundred thousand rows are compared, a few thousand at a time in memory")
{
    two_sides s;
    s.db.run("INSERT INTO paid SELECT 'k' || n, n, 'EUR', true, '2026-11-01T12:00:00Z' FROM generate_series(1, 100000) "
             "AS n");
    audit::sorted_entries sorted{100'000};
    for (int n = 1; n <= 100'000; ++n)
        if (n != 77'777) sorted.add({'k' + std::to_string(n), {std::to_string(n) + ".00", "EUR", "true"}});
    audit::findings all{10};
    auto const counted = audit::compare(s.connection, sorted, s.ours, s.over, "payments", all);
    CHECK(counted.ours == 100'000);
    REQUIRE(all.total() == 1);
    CHECK(all.kept()[0].key == "k77777");
}
