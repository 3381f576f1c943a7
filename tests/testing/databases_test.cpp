// The kit's databases: made, brought back, and dropped, also those that a killed run left behind.
#include "shop.hpp"
#include "tests/support/required.hpp"

#include <pqxx/pqxx>

#include <doctest/doctest.h>

#include <latch>
#include <stop_token>
#include <string>
#include <thread>

using namespace kit_test;
using skald::testing::rows;

namespace {

class server
{
public:
    pqxx::result run(std::string const& sql) { return pqxx::nontransaction{connection_}.exec(sql); }

    int count_of(std::string const& name)
    {
        return run("SELECT count(*) FROM pg_database WHERE datname LIKE '" + name + "%'")[0][0].as<int>();
    }

private:
    pqxx::connection connection_{skald::test::required("DATABASE_URL")};
};

std::string name_in(std::string const& url)
{
    return url.substr(url.rfind('=') + 1);
}

std::string url_with(std::string const& setting)
{
    std::string const url = skald::test::required("DATABASE_URL");
    return url + (url.find("://") == std::string::npos ? ' ' : '?') + setting;
}

// The URL of the server, for another role.
std::string url_for(std::string const& role)
{
    std::string url = skald::test::required("DATABASE_URL");
    auto const user = url.find("://") + 3;
    return url.substr(0, user) + role + url.substr(url.find('@', user));
}

struct role
{
    explicit role(std::string const& n, std::string const& options) : name{n}
    {
        on.run("CREATE ROLE " + n + " LOGIN " + options);
    }
    ~role() { on.run("DROP ROLE " + name); }
    server on;
    std::string name;
};

}  // namespace

TEST_CASE("a table is brought back whatever was done to it, also where it has as many rows as before")
{
    skald::testing::harness shop;
    shop.add(
        only_tables("orders", "0001_things", "CREATE TABLE thing (id int, name text); CREATE TABLE other (id int)"));
    shop.given("orders", "INSERT INTO thing VALUES (1, 'wheel'); INSERT INTO thing VALUES (2, 'bell')");
    auto const all = [&shop] {
        return shop.ask("orders", "SELECT * FROM thing UNION ALL SELECT id, 'other' FROM other ORDER BY 1");
    };
    rows const given{"1 | wheel", "2 | bell"};
    for (auto const* const what :
         {"SELECT 1", "UPDATE thing SET name = 'brake' WHERE id = 2", "DELETE FROM thing WHERE id = 1",
          "DELETE FROM thing; INSERT INTO thing VALUES (1, 'wheel'), (3, 'bell')", "TRUNCATE thing",
          "INSERT INTO other VALUES (7)", "INSERT INTO thing VALUES (2, 'bell')"}) {
        CAPTURE(what);
        shop.rewind();
        shop.ask("orders", what);
        shop.rewind();
        CHECK(all() == given);
    }
}

TEST_CASE("a harness brings everything back: rows, sequences, and what a step made")
{
    skald::testing::harness shop;
    shop.add(only_tables("orders", "0001_things",
                         "CREATE TABLE thing (id bigint GENERATED ALWAYS AS IDENTITY,"
                         "                    twice bigint GENERATED ALWAYS AS (weight * 2) STORED,"
                         "                    weight bigint, PRIMARY KEY (id));"
                         "CREATE TABLE part (of bigint REFERENCES thing (id), name text)"));
    shop.given("orders", "INSERT INTO thing (weight) VALUES (10); INSERT INTO part VALUES (1, 'wheel')");
    auto const all = [&shop] {
        return shop.ask("orders",
                        "SELECT t.*, p.name, nextval('thing_id_seq') FROM thing t LEFT JOIN part p ON p.of = t.id");
    };
    CHECK(all() == rows{"1 | 20 | 10 | wheel | 2"});
    auto const url = shop.database_url("orders");

    shop.ask("orders", "DELETE FROM part; DELETE FROM thing; INSERT INTO thing (weight) VALUES (3), (4)");
    shop.rewind();
    CHECK(shop.database_url("orders") == url);
    CHECK(all() == rows{"1 | 20 | 10 | wheel | 2"});

    shop.ask("orders", "ALTER TABLE part ADD COLUMN colour text; CREATE TABLE another (n int)");
    shop.rewind();
    CHECK(shop.database_url("orders") != url);  // thrown away, and copied anew
    CHECK(all() == rows{"1 | 20 | 10 | wheel | 2"});
}

TEST_CASE("a harness drops its databases, and those of runs that are over, and no others")
{
    server on;
    on.run("CREATE DATABASE skald_testing_abcdefghijkl_1");
    std::string name;
    {
        skald::testing::harness shop;
        shop.add(only_tables("orders", "0001_orders", tables::orders));
        name = name_in(shop.database_url("orders"));
        CHECK(on.count_of(name) == 1);
        CHECK(on.count_of("skald_testing_abcdefghijkl") == 0);

        skald::testing::harness other;  // while the first is under way
        other.add(only_tables("orders", "0001_orders", tables::orders));
        other.ask("orders", "SELECT 1");
        CHECK(on.count_of(name) == 1);
        CHECK(shop.ask("orders", "SELECT 1") == rows{"1"});
    }
    CHECK(on.count_of(name.substr(0, name.rfind('_'))) == 0);
}

TEST_CASE("a run whose URL names an application keeps its databases while another begins")
{
    skald::testing::harness shop{url_with("application_name=ci")}, other;
    shop.add(only_tables("orders", "0001_orders", tables::orders));
    shop.ask("orders", "SELECT 1");
    other.add(only_tables("orders", "0001_orders", tables::orders));
    other.ask("orders", "SELECT 1");
    CHECK(server{}.count_of(name_in(shop.database_url("orders"))) == 1);
}

TEST_CASE("a role that may not create databases is told so")
{
    role const poor{"kit_poor", "NOCREATEDB"};
    skald::testing::harness shop{url_for(poor.name)};
    shop.add(only_tables("orders", "0001_orders", tables::orders));
    CHECK_THROWS_WITH_AS(shop.ask("orders", "SELECT 1"), doctest::Contains("ALTER ROLE ... CREATEDB"),
                         skald::configuration_error);
}

TEST_CASE("a role that is no superuser drops its database also where autovacuum is in it")
{
    role const plain{"kit_visited", "CREATEDB"};
    std::string database;
    std::jthread visitor;
    {
        skald::testing::harness shop{url_for(plain.name)};
        shop.add(only_tables("orders", "0001_orders", tables::orders));
        database = name_in(shop.database_url("orders"));
        // Like autovacuum's session, a superuser's is none that this role may end. It leaves once DROP waits for it.
        std::latch arrived{1};
        visitor = std::jthread{[&database, &arrived](std::stop_token const& dropped) {
            pqxx::connection in_it{url_with("dbname=" + database)};
            arrived.count_down();
            server on;
            auto const waited_for = "SELECT FROM pg_stat_activity WHERE state = 'active' AND query = "
                                    "'DROP DATABASE IF EXISTS " +
                                    database + "'";
            while (!dropped.stop_requested() && on.run(waited_for).empty()) std::this_thread::yield();
        }};
        arrived.wait();
    }
    visitor.request_stop();
    visitor.join();
    CHECK(server{}.count_of(database) == 0);
}

TEST_CASE("a role that is no superuser has its databases copied instead")
{
    role const plain{"kit_plain", "CREATEDB"};
    skald::testing::harness shop{url_for(plain.name)};
    shop.add(only_tables("orders", "0001_orders", tables::orders));
    auto const url = shop.database_url("orders");
    shop.ask("orders", "INSERT INTO customer_order VALUES ('o', 'ann', 'pen', 1, 1)");
    shop.rewind();
    CHECK(shop.database_url("orders") != url);
    CHECK(shop.ask("orders", "SELECT * FROM customer_order").empty());
}
