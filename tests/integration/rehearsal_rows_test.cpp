// Which rows a rehearsal lists, how many, and what it says of those that it does not list.
#include "support/rehearsed_depot.hpp"

#include <doctest/doctest.h>

using nlohmann::json;
using skald::test::note;
using skald::test::says;
using skald::test::table_of;
using skald::test::waiting_depot;

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
    auto const role = "writer_" + std::to_string(::getpid());
    d.db().run(
        "CREATE TABLE ledger (entry text); CREATE SCHEMA vault; CREATE TABLE vault.coin (of text); CREATE ROLE " +
        role + " LOGIN; GRANT USAGE ON SCHEMA skald, public TO " + role +
        "; GRANT ALL ON ALL TABLES IN SCHEMA skald TO " + role + "; GRANT ALL ON ALL SEQUENCES IN SCHEMA skald TO " +
        role + "; GRANT INSERT ON ledger TO " + role + "; GRANT SELECT, INSERT ON effect, vault.coin TO " + role +
        "; GRANT USAGE ON effect_n_seq TO " + role +
        "; CREATE FUNCTION mint() RETURNS void LANGUAGE sql SECURITY DEFINER AS "
        "$$INSERT INTO vault.coin VALUES ('gold')$$");
    d.url = skald::test::as_role(d.db().url(), role);
    auto const report = d.rehearsed([](auto& ctx, auto&) {
        ctx.tx().exec("INSERT INTO ledger VALUES ('7')");
        ctx.tx().exec("SELECT mint()");
        note(ctx, "weighed");
        return skald::done();
    });
    d.db().run("DROP OWNED BY " + role + "; DROP ROLE " + role);
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
