// Which rows a rehearsal lists, how many, and what it says of those that it does not list.
#include "support/rehearsed_depot.hpp"

#include <doctest/doctest.h>

using nlohmann::json;
using skald::test::note;
using skald::test::says;
using skald::test::table_of;
using skald::test::waiting_depot;

namespace {

/// A role that works with Skald's tables and `effect`, and otherwise has what it is granted.
class writer
{
public:
    writer(skald::test::database const& in, std::string const& grants) : db_{in}
    {
        db_.run("CREATE ROLE " + name_ + " LOGIN; GRANT USAGE ON SCHEMA skald, public TO " + name_ +
                "; GRANT ALL ON ALL TABLES IN SCHEMA skald TO " + name_ +
                "; GRANT ALL ON ALL SEQUENCES IN SCHEMA skald TO " + name_ + "; GRANT SELECT, INSERT ON effect TO " +
                name_ + "; GRANT USAGE ON effect_n_seq TO " + name_ + "; GRANT " + grants + " TO " + name_);
    }
    ~writer() { db_.run("DROP OWNED BY " + name_ + "; DROP ROLE " + name_); }
    writer(writer const&) = delete;
    writer& operator=(writer const&) = delete;

    std::string url() const { return skald::test::as_role(db_.url(), name_); }

private:
    skald::test::database const& db_;
    std::string const name_{"writer_" + std::to_string(::getpid())};
};

}  // namespace

TEST_CASE("a rehearsal lists the rows that are deleted, and not those that are only locked")
{
    waiting_depot d;
    d.db().run("CREATE TABLE shelf (place integer PRIMARY KEY, what text); "
               "INSERT INTO shelf SELECT n, 'thing' FROM generate_series(1, 50) n");
    auto const report = d.rehearsed([](auto& ctx, auto&) {
        ctx.sql("SELECT FROM shelf WHERE place = 7 FOR UPDATE");
        ctx.sql("DELETE FROM shelf WHERE place = 9");
        ctx.tx().exec("SAVEPOINT a");
        ctx.sql("UPDATE shelf SET what = 'other' WHERE place = 11");
        ctx.tx().exec("RELEASE SAVEPOINT a");
        return skald::done();
    });
    auto const shelf = table_of(report, "public.shelf");
    INFO(report.dump(2));
    CHECK(shelf["rows"] == json::parse(R"([{"op": "update", "before": {"place": 11, "what": "thing"},
                                                            "after": {"place": 11, "what": "other"}},
                                           {"op": "delete", "before": {"place": 9, "what": "thing"}}])"));
}

TEST_CASE("of a large table at most 200 rows are listed, and the report says that there are more")
{
    waiting_depot d;
    d.db().run("CREATE TABLE shelf (place integer PRIMARY KEY, what text); "
               "INSERT INTO shelf SELECT n, repeat('thing', 20) FROM generate_series(1, 100000) n");
    auto const listed = [&](std::string const& sql) {
        return table_of(d.rehearsed([&](auto& ctx, auto&) {
            ctx.tx().exec(sql);
            return skald::done();
        }),
                        "public.shelf");
    };
    for (std::string const sql :
         {"INSERT INTO shelf SELECT n FROM generate_series(100001, 100300) n",
          "UPDATE shelf SET what = 'other' WHERE place % 300 = 0", "DELETE FROM shelf WHERE place % 300 = 0",
          "DELETE FROM shelf WHERE place > 99000; INSERT INTO shelf SELECT generate_series(100001, 100150)"}) {
        CAPTURE(sql);
        auto const shelf = listed(sql);
        CHECK(shelf["rows"].size() == 200);
        CHECK(shelf.value("not_listed", "") == "at most 200 are listed");
        CHECK(shelf["inserted"].get<int>() + shelf["updated"].get<int>() + shelf["deleted"].get<int>() >= 300);
    }
    auto const all = listed("INSERT INTO shelf SELECT n FROM generate_series(100001, 100200) n");
    CHECK(all["rows"].size() == 200);
    CHECK_FALSE(all.contains("not_listed"));
}

TEST_CASE("a role that may write a table and not read it is told what it would write, by number")
{
    waiting_depot d;
    d.db().run("CREATE TABLE ledger (entry text); CREATE SCHEMA vault; CREATE TABLE vault.coin (of text); "
               "CREATE FUNCTION mint() RETURNS void LANGUAGE sql SECURITY DEFINER AS "
               "$$INSERT INTO vault.coin VALUES ('gold')$$");
    writer const by{d.db(), "INSERT ON ledger"};
    d.url = by.url();
    auto const report = d.rehearsed([](auto& ctx, auto&) {
        ctx.tx().exec("INSERT INTO ledger VALUES ('7')");
        ctx.tx().exec("SELECT mint()");
        note(ctx, "weighed");
        return skald::done();
    });
    INFO(report.dump(2));
    CHECK(report["ends"] == "done");
    for (auto const* const hidden : {"public.ledger", "vault.coin"}) {
        CHECK(table_of(report, hidden)["inserted"] == 1);
        CHECK(table_of(report, hidden).value("not_listed", "") == "this role may not read the table");
        CHECK_FALSE(table_of(report, hidden).contains("rows"));
    }
    CHECK(table_of(report, "public.effect")["rows"][0]["after"]["what"] == "weighed");
    CHECK(says(report["locks"], "public.ledger"));
}

TEST_CASE("of Skald's own tables are counted the rows that would be there, and no others")
{
    waiting_depot d;
    auto const report = d.rehearsed([](auto&, auto&) { return skald::reject("too heavy"); });
    INFO(report.dump(2));
    CHECK(report["ends"] == "rejected");
    CHECK(table_of(report, "skald.parked").is_null());
}

TEST_CASE("rows that another session is not shown are not listed as new, and the report says that some are missing")
{
    waiting_depot d;
    d.db().run("CREATE TABLE shelf (tenant text, place integer PRIMARY KEY, what text); "
               "INSERT INTO shelf SELECT 'a', n, 'thing' FROM generate_series(1, 9) n; "
               "ALTER TABLE shelf ENABLE ROW LEVEL SECURITY; "
               "CREATE POLICY own ON shelf USING (tenant = current_setting('app.tenant', true))");
    writer const by{d.db(), "ALL ON shelf"};
    d.url = by.url();
    auto const report = d.rehearsed([](auto& ctx, auto&) {
        ctx.tx().exec("SET LOCAL app.tenant = 'a'; UPDATE shelf SET what = 'other' WHERE place = 1; "
                      "DELETE FROM shelf WHERE place = 2");
        return skald::done();
    });
    INFO(report.dump(2));
    auto const shelf = table_of(report, "public.shelf");
    CHECK(shelf["updated"] == 1);
    CHECK(shelf["deleted"] == 1);
    CHECK(shelf["rows"] == json::parse(R"([{"op": "write", "after": {"tenant": "a", "place": 1, "what": "other"}}])"));
    CHECK(says(shelf, "another session can't see them"));
}

TEST_CASE("a table that can't be searched takes no counts from itself or from another, and no rows from another")
{
    waiting_depot d;
    d.db().run("CREATE TABLE shelf (place integer PRIMARY KEY, what text); INSERT INTO shelf VALUES (7, 'thing'); "
               "CREATE TYPE grade AS ENUM ('a', 'b'); CREATE FUNCTION broken(grade) RETURNS json LANGUAGE sql "
               "AS $$SELECT (1 / 0)::text::json$$; CREATE CAST (grade AS json) WITH FUNCTION broken(grade); "
               "CREATE TABLE mark (of grade)");
    for (std::string const sql :
         {"INSERT INTO mark VALUES ('a')", "LOCK TABLE shelf; UPDATE shelf SET what = 'other' WHERE place = 7"}) {
        CAPTURE(sql);
        auto const report = d.rehearsed([&](auto& ctx, auto&) {
            ctx.tx().exec(sql);
            note(ctx, "weighed");
            return skald::done();
        });
        INFO(report.dump(2));
        bool const is_locked = sql.starts_with("LOCK");
        auto const of = table_of(report, is_locked ? "public.shelf" : "public.mark");
        CHECK(of.value("inserted", 0) + of.value("updated", 0) == 1);
        CHECK(says(of, is_locked ? "lock timeout" : "division by zero"));
        if (is_locked) CHECK(of["rows"] == json::parse(R"([{"op": "write", "after": {"place": 7, "what": "other"}}])"));
        CHECK(table_of(report, "public.effect")["rows"][0]["after"]["what"] == "weighed");
    }
}

TEST_CASE("the rows of a table that the step itself creates are listed as new")
{
    waiting_depot d;
    auto const report = d.rehearsed([](auto& ctx, auto&) {
        ctx.tx().exec("CREATE TEMP TABLE scratch (id int PRIMARY KEY); INSERT INTO scratch VALUES (1)");
        ctx.tx().exec("CREATE TABLE kept (id int PRIMARY KEY); INSERT INTO kept VALUES (2)");
        return skald::done();
    });
    INFO(report.dump(2));
    CHECK(table_of(report, "public.kept")["rows"] == json::parse(R"([{"op": "insert", "after": {"id": 2}}])"));
    CHECK(says(report["tables"], R"("rows":[{"after":{"id":1},"op":"insert"}])"));
    CHECK_FALSE(says(report["tables"], "not_listed"));
}

TEST_CASE("what the server does not count as rows is not reported as nothing")
{
    waiting_depot d;
    d.db().run("CREATE TABLE shelf (place integer PRIMARY KEY); INSERT INTO shelf VALUES (7)");
    auto const table = [&](std::string const& sql, std::string const& name) {
        auto const report = d.rehearsed([&](auto& ctx, auto&) {
            ctx.tx().exec(sql);
            return skald::done();
        });
        INFO(report.dump(2));
        CHECK(skald::rehearsal::in_words(report).find(name) != std::string::npos);
        return table_of(report, name);
    };
    CHECK(says(table("TRUNCATE shelf", "public.shelf"), "truncated or rewritten"));
    auto const filled = table("TRUNCATE shelf; INSERT INTO shelf VALUES (8)", "public.shelf");
    CHECK(says(filled, "truncated or rewritten"));
    CHECK(filled["inserted"] == 1);
    CHECK(table("LOCK TABLE shelf", "public.shelf").is_null());
    CHECK(table("SELECT lo_from_bytea(0, 'photo')", "pg_catalog.pg_largeobject")["inserted"] == 1);
}

TEST_CASE("a row that is written twice is listed once, as it is at the end, and the report says why")
{
    waiting_depot d;
    d.db().run("CREATE TABLE shelf (place integer PRIMARY KEY, what text)");
    auto const report = d.rehearsed([](auto& ctx, auto&) {
        ctx.tx().exec("INSERT INTO shelf VALUES (1, 'thing'); UPDATE shelf SET what = 'other'");
        return skald::done();
    });
    auto const shelf = table_of(report, "public.shelf");
    INFO(shelf.dump(2));
    CHECK(shelf["rows"] == json::parse(R"([{"op": "insert", "after": {"place": 1, "what": "other"}}])"));
    CHECK(says(shelf, "written more than once"));
}

TEST_CASE("amounts are listed as they are, to the last digit, and their rows as they belong together")
{
    waiting_depot d;
    d.db().run("CREATE TABLE price (of numeric, cents numeric, n bigint, more jsonb, PRIMARY KEY (of) INCLUDE (n)); "
               "INSERT INTO price VALUES (12345678901234567.5, 1234567890123456.78, 9007199254740993, "
               "'{\"net\": [100.00, -1e3], \"text\": \"say \\\"1.50\\\"\"}')");
    auto const report = d.rehearsed([](auto& ctx, auto&) {
        ctx.tx().exec("UPDATE price SET cents = cents + 0.01, n = n + 1");
        ctx.tx().exec("INSERT INTO price VALUES (1, '1e400')");
        return skald::done();
    });
    INFO(report.dump(2));
    auto const rows = table_of(report, "public.price")["rows"];
    REQUIRE(rows.size() == 2);
    CHECK(rows[0]["op"] == "update");
    CHECK(rows[0]["before"] == json::parse(R"({"of": "12345678901234567.5", "cents": "1234567890123456.78",
        "n": "9007199254740993", "more": {"net": ["100.00", -1000], "text": "say \"1.50\""}})"));
    CHECK(rows[0]["after"]["cents"] == "1234567890123456.79");
    CHECK(rows[0]["after"]["n"] == "9007199254740994");
    CHECK(rows[1]["op"] == "insert");
    CHECK(rows[1]["after"]["cents"].get<std::string>().size() == 401);
}
