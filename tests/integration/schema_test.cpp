// Migrations, and every embedded statement against the schema that they make.
#include "support/database.hpp"

#include "postgres/connection.hpp"
#include "postgres/migrate.hpp"
#include "postgres/postgres_store.hpp"

#include <skald/errors.hpp>
#include <skald/service.hpp>

#include <doctest/doctest.h>

#include <pqxx/except>

#include <thread>

using skald::postgres::migrate;
using skald::test::database;

TEST_CASE("every statement of sql/queries prepares against the migrated schema")
{
    database const db;
    // A connection prepares all of them.
    CHECK_NOTHROW(skald::postgres::connection{{.url = db.url()}});
}

TEST_CASE("a connection to a schema that is not migrated yet says so, and what to do")
{
    database const db;
    db.run("DROP FUNCTION skald.outbox_is_over");
    CHECK_THROWS_AS(skald::postgres::connection{{.url = db.url()}}, pqxx::undefined_function);
    db.run("DELETE FROM skald.migration WHERE owner = 'skald' AND name = '0021_requests'");
    CHECK_THROWS_WITH_AS(skald::postgres::connection{{.url = db.url()}},
                         doctest::Contains("of an older Skald: it lacks 0021_requests; run `skald migrate`"),
                         skald::postgres::schema_behind);
    db.run("DROP SCHEMA skald CASCADE");  // the next test has this database
    migrate(db.url());
    skald::postgres::own_database(db.url(), "orders");
}

TEST_CASE("migrating again applies nothing")
{
    database const db;
    CHECK(migrate(db.url()).empty());
}

TEST_CASE("a service's own migrations are applied once, in the order of their names")
{
    database const db{"shop"};
    skald::postgres::migration const first{"0001_a", "CREATE TABLE own (n int)"},
        second{"0002_b", "ALTER TABLE own ADD m int"};
    CHECK(migrate(db.url(), "shop", {second, first}) == std::vector<std::string>{"shop/0001_a", "shop/0002_b"});
    CHECK(migrate(db.url(), "shop", {first, second}).empty());
    db.run("DELETE FROM skald.migration WHERE owner = 'shop'");
}

TEST_CASE("an applied migration that was changed is an error, and nothing is applied behind it")
{
    database const db{"shop"};
    migrate(db.url(), "shop", {{"0001_a", "CREATE TABLE own (n int)"}});
    CHECK_THROWS_WITH_AS(migrate(db.url(), "shop", {{"0001_a", "CREATE TABLE own (n bigint)"}, {"0002_b", "SELECT 1"}}),
                         doctest::Contains("0001_a was applied with another text"), skald::configuration_error);
    CHECK(db.one("SELECT count(*) FROM skald.migration WHERE name = '0002_b'") == "0");
    db.run("DELETE FROM skald.migration WHERE owner = 'shop'");
}

TEST_CASE("a migration that fails leaves nothing of itself")
{
    database const db{"shop"};
    CHECK_THROWS(migrate(db.url(), "shop", {{"0001_a", "CREATE TABLE half (n int); SELECT 1/0"}}));
    CHECK(db.one("SELECT to_regclass('half') IS NULL") == "t");
    CHECK(db.one("SELECT count(*) FROM skald.migration WHERE owner = 'shop'") == "0");
}

TEST_CASE("many processes that migrate at once apply each migration once")
{
    database const db;
    db.run("DROP SCHEMA skald CASCADE");
    {
        std::vector<std::jthread> processes;
        for (int i = 0; i < 6; ++i) processes.emplace_back([&] { CHECK_NOTHROW(migrate(db.url())); });
    }
    skald::postgres::own_database(db.url(), "orders");
    CHECK(db.one("SELECT count(*) = count(DISTINCT name) FROM skald.migration") == "t");
}

TEST_CASE("a service that is pointed at another one's database applies nothing there")
{
    database const db{"payments"};
    CHECK_THROWS_WITH_AS(migrate(db.url(), "orders", {{"0001_a", "CREATE TABLE foreign_table (n int)"}}),
                         doctest::Contains("belongs to the service payments"), skald::configuration_error);
    CHECK(db.one("SELECT to_regclass('foreign_table') IS NULL") == "t");
    // Nor does a newer process bring another service's database up to date.
    db.run("UPDATE skald.migration SET name = 'later' WHERE name = '0020_participants'");
    CHECK_THROWS_AS(migrate(db.url(), "orders"), skald::configuration_error);
    CHECK(db.one("SELECT count(*) FROM skald.migration WHERE name = '0020_participants'") == "0");
    db.run(
        "UPDATE skald.migration SET name = '0020_participants' WHERE name = 'later'");  // the next test has this database
}

TEST_CASE("a database belongs to one service, and another one is told so")
{
    database const db{"payments"};
    CHECK_NOTHROW(skald::postgres::own_database(db.url(), "payments"));
    CHECK_THROWS_WITH_AS(skald::postgres::own_database(db.url(), "orders"),
                         doctest::Contains("belongs to the service payments"), skald::configuration_error);
}

TEST_CASE("what a process owned at its start is its database, also before its first connection")
{
    database const started{"payments"}, other{"payments"};
    skald::postgres::connection_options options{.url = other.url()};
    options.database->starts_as(skald::postgres::own_database(started.url(), "payments").identity);
    CHECK_THROWS_WITH_AS(skald::postgres::connection{options}, doctest::Contains("another database"),
                         pqxx::broken_connection);
    options.url = started.url();
    CHECK_NOTHROW(skald::postgres::connection{options});
}

TEST_CASE("a migration that fails is named, with the line, and nothing of it remains")
{
    database const db{"orders"};
    CHECK_THROWS_WITH_AS(
        migrate(db.url(), "orders", {{"0001_a", "CREATE TABLE a (n int);\nCREATE TABL b (n int);"}}),
        "the migration orders/0001_a failed, and nothing of it remains: ERROR:  syntax error at or near \"TABL\"; "
        "LINE 2: CREATE TABL b (n int);",
        skald::configuration_error);
    CHECK(db.one("SELECT to_regclass('a') IS NULL") == "t");
}

TEST_CASE("a migration that met another session, or a server in trouble, may be tried again, and nothing of it remains")
{
    database const db{"orders"};
    for (std::string const met : {"deadlock_detected", "lock_not_available", "query_canceled", "admin_shutdown",
                                  "cannot_connect_now", "disk_full", "out_of_memory", "read_only_sql_transaction"}) {
        CAPTURE(met);
        CHECK_THROWS_AS(
            migrate(db.url(), "orders", {{"0001_a", "CREATE TABLE a (n int); DO $$ BEGIN RAISE " + met + "; END $$"}}),
            skald::postgres::migration_blocked);
        CHECK(db.one("SELECT to_regclass('a') IS NULL") == "t");
    }
    CHECK_NOTHROW(migrate(db.url(), "orders", {{"0001_a", "CREATE TABLE a (n int)"}}));
}

TEST_CASE("a migration that asks for what the server does not have, or not for this role, is wrong")
{
    database const db{"orders"};
    for (std::string const met : {"feature_not_supported", "insufficient_privilege", "raise_exception"}) {
        CAPTURE(met);
        CHECK_THROWS_WITH_AS(migrate(db.url(), "orders", {{"0001_a", "DO $$ BEGIN RAISE " + met + "; END $$"}}),
                             doctest::Contains("the migration orders/0001_a failed"), skald::configuration_error);
    }
}

TEST_CASE("a migration that comes before one that is applied is refused")
{
    database const db{"orders"};
    migrate(db.url(), "orders", {{"0002_b", "CREATE TABLE b (n int)"}});
    CHECK_THROWS_WITH_AS(
        migrate(db.url(), "orders", {{"0001_a", "CREATE TABLE a (n int)"}, {"0002_b", "CREATE TABLE b (n int)"}}),
        doctest::Contains("orders/0001_a comes before 0002_b, which is applied"), skald::configuration_error);
    CHECK(db.one("SELECT to_regclass('a') IS NULL") == "t");
    CHECK_NOTHROW(
        migrate(db.url(), "orders", {{"0002_b", "CREATE TABLE b (n int)"}, {"0003_c", "CREATE TABLE c (n int)"}}));
    // An older process, which knows less than what is applied.
    CHECK_NOTHROW(migrate(db.url(), "orders", {{"0002_b", "CREATE TABLE b (n int)"}}));
}

TEST_CASE("a migration has a name that sorts and prints, once")
{
    skald::service s{"orders"};
    for (auto const* bad : {"", "a b", "a/b", "\n", "\xc3\xa9"})
        CHECK_THROWS_WITH_AS(s.migrate(bad, "SELECT 1"), doctest::Contains("such as 0001_tables"),
                             skald::configuration_error);
    CHECK_THROWS_AS(s.migrate(std::string(101, 'a'), ""), skald::configuration_error);
    s.migrate("0001_a", "SELECT 1");
    CHECK_THROWS_WITH_AS(s.migrate("0001_a", "SELECT 1"), doctest::Contains("there twice"), skald::configuration_error);
}

TEST_CASE("a database without the schema says what to do")
{
    database const db;
    db.run("ALTER SCHEMA skald RENAME TO elsewhere");
    CHECK_THROWS_WITH_AS(skald::postgres::connection{{.url = db.url()}}, doctest::Contains("skald migrate"),
                         skald::configuration_error);
    db.run("ALTER SCHEMA elsewhere RENAME TO skald");
}

TEST_CASE("a session never commits with less than a flush, whatever the database's default is")
{
    database const db;
    db.run("ALTER ROLE CURRENT_USER IN DATABASE " + db.one("SELECT current_database()") +
           " SET synchronous_commit = off");
    skald::postgres::connection c{{.url = db.url()}};
    CHECK(c.run("SHOW synchronous_commit")[0][0].c_str() == std::string{"on"});
    db.run("ALTER ROLE CURRENT_USER IN DATABASE " + db.one("SELECT current_database()") + " RESET synchronous_commit");
}

TEST_CASE("no function that keeps off sequential scans is compiled by the server")
{
    // Where there is no other way to read a table, as one of a single row, such a plan costs 10^10, and JIT believes
    // it.
    database const db;
    CHECK(db.run("SELECT proname FROM pg_proc WHERE pronamespace = 'skald'::regnamespace AND "
                 "'enable_seqscan=off' = ANY (proconfig) AND NOT 'jit=off' = ANY (proconfig)")
              .empty());
    CHECK(db.run("SELECT 1 FROM pg_proc WHERE pronamespace = 'skald'::regnamespace AND 'jit=off' = ANY (proconfig)")
              .size() >= 8);
}

TEST_CASE("a finished saga has its time and an unfinished one has none")
{
    database const db;
    CHECK_THROWS_WITH(
        db.run("INSERT INTO skald.saga (scope, key, definition, status, data, itinerary) VALUES ('', 'k', "
               "'d', 'completed', '{}', '')"),
        doctest::Contains("finished_exactly_in_final_states"));
}
