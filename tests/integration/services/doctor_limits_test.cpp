// `skald doctor` where it may not look at everything, and what it says of what it has not seen.
#include "support/server_setting.hpp"
#include "support/skald_command.hpp"

#include <pqxx/pqxx>

using namespace skald::test;

namespace {

told doctor_with(fresh_database const& database, std::string const& options)
{
    service_process command{SKALD_TOOL,
                            {"doctor", "--json"},
                            {{"DATABASE_URL", database.url() + "?options=" + options}, {"PATH", "/usr/bin:/bin"}}};
    auto const end = command.run();
    return {end.code.value_or(-1), command.log()};
}

std::string as_role(fresh_database const& database, std::string const& role)
{
    auto url = database.url();
    auto const user = url.find("://") + 3;
    return url.replace(user, url.find_first_of(":@", user) - user, role);
}

bool says(told const& all, std::string const& words)
{
    return all.text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("skald doctor minds no search_path, and no statement_timeout that others are given")
{
    fresh_database db{"path"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    db.ask("CREATE SCHEMA evil; CREATE TABLE evil.pg_class (n int); CREATE TABLE evil.pg_stat_activity (n int);"
           "CREATE TABLE evil.pg_proc (n int)");
    for (std::string const options : {"-csearch_path%3Devil%2Cpg_catalog", "-cstatement_timeout%3D1"}) {
        // The statement that lifts a timeout of 1 ms is itself under it, and now and then that cancels it.
        told seen;
        bool const is_well = wait_until([&] { return (seen = doctor_with(db, options)).code == 0; });
        CHECK_MESSAGE(is_well, options, ": ", seen.text);
        for (std::string const check : {"vacuum", "schema", "functions", "privileges", "locks"})
            CHECK_MESSAGE(level(seen.object(), check) == "ok", options, ": ", check, ": ", seen.text);
    }
}

TEST_CASE("skald doctor names a role's own limit of connections, whoever looks, and does not blame the address for it")
{
    no_absent_standby const meanwhile;
    fresh_database db{"narrow"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    auto const role = "narrow_" + random_word();
    auto const look_as = [&](std::string const& user) {
        service_process command{
            SKALD_TOOL, {"doctor", "--json"}, {{"DATABASE_URL", as_role(db, user)}, {"PATH", "/usr/bin:/bin"}}};
        auto const end = command.run();
        return told{end.code.value_or(-1), command.log()};
    };
    auto const stranger = look_as(role);
    CHECK(stranger.code == 1);
    CHECK_MESSAGE(says(stranger, "the server runs: check the user in DATABASE_URL"), stranger.text);
    db.ask("CREATE ROLE " + role + " LOGIN CONNECTION LIMIT 1");
    {
        pqxx::connection const only{as_role(db, role) + "?application_name=skald/orders"};
        auto const outside = look_as(role);
        CHECK(outside.code == 1);
        CHECK_MESSAGE(says(outside, "raise the role's limit (ALTER ROLE ... CONNECTION LIMIT)"), outside.text);
        CHECK_FALSE(says(outside, "that DATABASE_URL names it"));
        auto const owner = run_skald(db, {"doctor", "--json"}, false);
        CHECK(owner.code == 1);
        CHECK(level(owner.object(), "connections") == "problem");
        CHECK_MESSAGE(says(owner, "1 of 1 connections of role " + role + " are taken"), owner.text);
    }
    // The session that ended may count for a moment more.
    CHECK(wait_until([&] { return level(look_as(role).object(), "connections") == "warning"; }));
    db.ask("DROP ROLE " + role + "; CREATE ROLE " + role + " LOGIN CONNECTION LIMIT 1");
    {
        pqxx::connection const exporter{as_role(db, role)};  // nothing of Skald's, and enough for it
        auto const owner = run_skald(db, {"doctor", "--json"}, false);
        CHECK_MESSAGE(owner.code == 0, owner.text);
    }
    db.ask("DROP ROLE " + role);
}

TEST_CASE("skald doctor says of a database that takes no writes nothing about locks")
{
    fresh_database db{"standby"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    auto const seen = doctor_with(db, "-cdefault_transaction_read_only%3Don");
    CHECK(seen.code == 1);
    CHECK(level(seen.object(), "server") == "problem");
    CHECK(level(seen.object(), "bodies") == "problem");
    CHECK(says(seen, "session is read-only"));
    CHECK_MESSAGE(!says(seen, "was locked"), seen.text);
}

TEST_CASE("skald doctor names a snapshot that keeps dead rows from being removed, whose it is, and for how long")
{
    fresh_database db{"snapshot"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    pqxx::connection c{db.url() + "?application_name=report"};
    pqxx::nontransaction tx{c};
    tx.exec("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM skald.inbox");
    auto const holder = "pid " + std::to_string(c.backendpid()) + " (user ";
    CHECK(wait_until([&] {
        auto const seen = run_skald(db, {"doctor"}, false);
        return says(seen, holder) &&
               says(seen, "application report, idle in transaction) keeps VACUUM from removing dead rows, for ");
    }));
}

TEST_CASE("skald doctor names what a process of the service has had in a transaction for long, and how to end it")
{
    fresh_database db{"slow"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    CHECK(level(run_skald(db, {"doctor", "--json"}, false).object(), "slow steps") == "ok");
    pqxx::connection others{db.url() + "?application_name=skald/orders2/lane"};
    pqxx::nontransaction{others}.exec("BEGIN; SELECT 1");
    pqxx::connection lane{db.url() + "?application_name=skald/orders/lane"};
    pqxx::nontransaction{lane}.exec("BEGIN; SELECT 'what the step asked'");
    told seen;
    CHECK(wait_until([&] {
        seen = run_skald(db, {"doctor", "--json"}, false);
        return level(seen.object(), "slow steps") == "warning";
    }));
    CHECK_MESSAGE(says(seen, "session " + std::to_string(lane.backendpid()) + " (skald/orders/lane) has had"),
                  seen.text);
    CHECK(says(seen, "SELECT 'what the step asked'"));
    CHECK(says(seen, "SELECT pg_cancel_backend(" + std::to_string(lane.backendpid()) + ")"));
    CHECK_MESSAGE(!says(seen, "orders2"), seen.text);
}

TEST_CASE("skald doctor says that no process is connected, and which sagas no process here has ever had a step of")
{
    fresh_database db{"unseen"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    auto const idle = run_skald(db, {"doctor", "--json"}, false);
    CHECK(level(idle.object(), "versions") == "ok");
    CHECK(says(idle, "than what processes of this service have had; no process is connected"));
    CHECK(says(idle, "taken by a process that does not have it; no process is connected"));
    db.ask("INSERT INTO skald.saga (scope, key, definition, data, itinerary) VALUES ('', 'k', 'place-order', '{}', "
           "'forward 1/2 create@orders=compensatable ship@shipping=pivot'), ('', 'l', 'elsewhere', '{}', 'forward 1/1 "
           "ship@shipping=pivot')");
    auto const waiting = run_skald(db, {"doctor", "--json"}, false);
    CHECK(level(waiting.object(), "versions") == "warning");
    CHECK_MESSAGE(says(waiting, "place-order version 1 has 1 sagas under way, and no process of this service has ever"),
                  waiting.text);
    CHECK_MESSAGE(!says(waiting, "elsewhere"), waiting.text);
}

TEST_CASE("skald doctor names a step that nobody hosts while a saga waits for it: at the home, and where it is to run")
{
    shop s;
    s.open();
    CHECK(level(run_skald(s.orders_db, {"doctor", "--json"}).object(), "awaited steps") == "ok");
    s.orders_db.ask("SELECT skald.start('', 'sql', 'place-order', 1, '{}', 'forward 1/1 wrap-gift@shipping=pivot', "
                    "sha256('x'), 'shipping', 'wrap-gift', '{}', '{\"x-idempotency-key\":\"sql:wrap-gift\","
                    "\"x-saga-scope\":\"\",\"x-saga\":\"place-order\",\"x-saga-version\":\"1\","
                    "\"x-saga-itinerary\":\"forward 1/1 wrap-gift@shipping=pivot\"}')");
    for (auto* database : {&s.orders_db, &s.shipping_db}) {
        told seen;
        CHECK(wait_until([&] {
            seen = run_skald(*database, {"doctor", "--json"});
            return level(seen.object(), "awaited steps") == "warning";
        }));
        CHECK_MESSAGE(says(seen, "1 messages wait for a process of shipping that has step wrap-gift of place-order "
                                 "version 1"),
                      seen.text);
    }
}

TEST_CASE("skald doctor of a user who may not declare tells that, and hides nothing else")
{
    shop s;
    s.start_all();
    auto const user = "modest-" + random_word();
    rabbitmqctl("add_user " + user + " secret");
    auto place = broker();
    place.user = user;
    place.password = "secret";
    auto variables = shop::variables(s.payments_db);
    variables["AMQP_URL"] = place.url();
    auto const seen = [&](std::string const& write) {
        rabbitmqctl("set_permissions -p " + broker().vhost + ' ' + user + " '^$' '" + write +
                    "' '^skald\\.payments(\\.parked)?$'");
        service_process command{SKALD_TOOL, {"doctor", "--json"}, variables};
        auto const end = command.run();
        return told{end.code.value_or(-1), command.log()};
    };
    auto const narrow = seen("^skald$");
    CHECK(narrow.code == 1);
    for (std::string const check : {"broker", "exchange", "publishing", "queue", "consuming"})
        CHECK_MESSAGE(level(narrow.object(), check) == "ok", check, ": ", narrow.text);
    CHECK(level(narrow.object(), "declaring") == "problem");
    CHECK(says(narrow, "SKALD_DECLARE=off, run doctor with that too"));
    CHECK(says(narrow, "skald.payments and its parked queue exist; 0 wait"));
    auto const mute = seen("^$");
    CHECK(level(mute.object(), "publishing") == "problem");
    CHECK(level(mute.object(), "declaring") == "problem");
    CHECK(level(mute.object(), "consuming") == "ok");
    variables["SKALD_DECLARE"] = "off";
    auto const well = seen("^skald$");
    CHECK(level(well.object(), "declaring") == "none");
    rabbitmqctl("delete_user " + user);
}
