// What a service says when it is told something that can't be right.
#include <sys/socket.h>

#include "support/shop.hpp"

using namespace skald::test;

namespace {

struct one_service
{
    fresh_database database{"configuration"};
    environment variables{shop::variables(database)};

    /// Runs it, and expects it to end with `code` by itself and to say `words`.
    void refuses(std::vector<std::string> arguments, environment const& changed, std::string const& words, int code = 2)
    {
        auto all = variables;
        for (auto const& [name, value] : changed) all[name] = value;
        service_process service{shop::program("payment"), std::move(arguments), all};
        service.start();
        auto const end = service.wait(std::chrono::seconds{60});
        CHECK_MESSAGE(end.code == code, words, ": ", service.log());
        CHECK_MESSAGE(service.has_logged(words), words, ": ", service.log());
    }
};

}  // namespace

TEST_CASE("--help-all lists every setting and ends with 0, whatever else is wrong")
{
    for (auto const* name : {"order", "payment", "shipping"}) {
        service_process service{shop::program(name), {"--help-all"}, {{"SKALD_NO_SUCH", "1"}}};
        CHECK(service.run().code == 0);
        for (auto const* word : {"DATABASE_URL", "AMQP_URL", "SKALD_HTTP_LISTEN", "--listen", "SKALD_DRAIN_SECONDS",
                                 "--lanes", "SKALD_LOG_LEVEL"})
            CHECK_MESSAGE(service.has_logged(word), word);
    }
}

TEST_CASE("an unknown setting, or a value that can't be, is named, and the service ends with 2")
{
    one_service s;
    s.refuses({}, {{"SKALD_FOO", "1"}}, "SKALD_FOO");
    s.refuses({}, {{"SKALD_LANES_", "1"}}, "SKALD_LANES_");
    s.refuses({}, {{"SKALD_", "1"}}, "SKALD_");
    s.refuses({"--foo"}, {}, "--foo");
    s.refuses({"--foo=1"}, {}, "--foo");
    s.refuses({"stray"}, {}, "stray");
    s.refuses({"--lanes"}, {}, "--lanes");
    for (auto const* value : {"0", "-1", "four", "", "257", "4 ", "1e1", "99999999999999999999"}) {
        s.refuses({}, {{"SKALD_LANES", value}}, "SKALD_LANES");
        s.refuses({"--lanes", value}, {}, "--lanes");
    }
    s.refuses({}, {{"SKALD_PREFETCH", "70000"}}, "SKALD_PREFETCH");
    s.refuses({"--prefetch", "1"}, {}, "SKALD_PREFETCH");
    s.refuses({}, {{"SKALD_LOG_LEVEL", "loud"}}, "SKALD_LOG_LEVEL");
    s.refuses({}, {{"SKALD_RELAY", "yes"}}, "SKALD_RELAY");
    s.refuses({}, {{"SKALD_DRAIN_SECONDS", "0"}}, "SKALD_DRAIN_SECONDS");
    s.refuses({"--migrate", "maybe"}, {}, "--migrate: 'maybe' is not on, off or only");
    s.refuses({"--listen", ""}, {}, "--listen: empty");
    s.refuses({"--listen", "127.0.0.1:0"}, {{"SKALD_HTTP_TLS_CERTIFICATE", ""}, {"SKALD_HTTP_TLS_KEY", ""}},
              "SKALD_HTTP_TLS_CERTIFICATE: empty");
    s.refuses({"--listen", "nonsense"}, {}, "nonsense");
    s.refuses({"--listen", "127.0.0.1:99999"}, {}, "127.0.0.1:99999");
    s.refuses({}, {{"SKALD_LANES_FILE", "/no/such/file"}}, "/no/such/file");
    s.refuses({}, {{"DATABASE_URL_FILE", "/no/such/file"}}, "DATABASE_URL and DATABASE_URL_FILE are both set");
    s.refuses({"--listen", "127.0.0.1:0"}, {{"SKALD_HTTP_TLS_KEY", "key.pem"}},
              "SKALD_HTTP_TLS_CERTIFICATE is missing");
    s.refuses({"--listen", "127.0.0.1:0", "--http-tls-certificate", "/no/such/file"},
              {{"SKALD_HTTP_TLS_KEY", "key.pem"}},
              "SKALD_HTTP_TLS_CERTIFICATE (/no/such/file) can't be read: No such file");
}

TEST_CASE("a URL that can't be read is a clear error, and its password is not shown")
{
    one_service s;
    for (std::string const url : {"http://user:hunter2@host", "amqp://user:hunter2@", "amqp://user:hunter2@host:port",
                                  "amqp://user:hunter2@host:5672/a/b", "", "user:hunter2@host",
                                  "amqps://user:hunter2@host?cacertfile=/no/such.pem"}) {
        auto variables = s.variables;
        variables["AMQP_URL"] = url;
        service_process service{shop::program("payment"), {}, variables};
        service.start();
        auto const end = service.wait(std::chrono::seconds{60});
        CHECK_MESSAGE(end.code == 2, url, ": ", service.log());
        CHECK_MESSAGE(service.has_logged("AMQP"), url, ": ", service.log());
        CHECK_FALSE(service.has_logged("hunter2"));
    }
    for (std::string const url :
         {"postgresql://user:hunter2@[::1", "postgresql://user:hunter2@host:port/db",
          "postgresql://user:hunter2@host/db?nosuch=1", "hunter2", "postgresql://user:hunter2@host/db?sslmode=nonsense",
          "postgresql://user:hunter2@host:0/db", "postgresql://user:hunter2@host/db?target_session_attrs=read-only",
          "postgresql://user:hunter2@host/db?sslmode=verify-full&sslrootcert=/no/such.pem"}) {
        auto variables = s.variables;
        variables["DATABASE_URL"] = url;
        service_process service{shop::program("payment"), {}, variables};
        service.start();
        // No amount of waiting makes such a URL right.
        auto const end = service.wait(std::chrono::seconds{60});
        CHECK_MESSAGE(end.code == 2, url, ": ", service.log());
        CHECK_FALSE_MESSAGE(service.has_logged("hunter2"), service.log());
    }
}

TEST_CASE("a database in another encoding than UTF8 is refused before anything is made in it")
{
    for (std::string const encoding : {"SQL_ASCII", "LATIN1"}) {
        fresh_database other{"other", fresh_database::encoded{encoding}};
        service_process tool{
            SKALD_TOOL, {"migrate", "--service", "orders"}, {{"DATABASE_URL", other.url()}, {"PATH", "/usr/bin:/bin"}}};
        CHECK(tool.run().code == 2);
        CHECK_MESSAGE(tool.has_logged("has the encoding " + encoding + ", and Skald needs UTF8"), tool.log());
        CHECK(other.value("SELECT to_regnamespace('skald') IS NULL") == "t");
    }
}

TEST_CASE("a URL that is set and empty is named, by services and by the tool; and one that is not set, when it matters")
{
    one_service s;
    s.refuses({}, {{"DATABASE_URL", ""}}, "DATABASE_URL: empty");
    s.refuses({}, {{"AMQP_URL", ""}}, "AMQP_URL: empty");
    auto const says = [&](std::vector<std::string> words, environment variables, int code, std::string const& what) {
        service_process tool{SKALD_TOOL, std::move(words), std::move(variables)};
        auto const end = tool.run();
        CHECK_MESSAGE(end.code == code, tool.log());
        CHECK_MESSAGE(tool.has_logged(what), tool.log());
    };
    environment const no_server{{"PGHOST", "127.0.0.1"}, {"PGPORT", "1"}, {"PGUSER", "app"}};
    std::string const unset = "DATABASE_URL is not set";
    for (std::string const command : {"doctor", "saga list", "outbox status", "migrate"}) {
        auto const space = command.find(' ');
        std::vector<std::string> words{command.substr(0, space)};
        if (space != std::string::npos) words.push_back(command.substr(space + 1));
        says(words, {{"DATABASE_URL", ""}}, 2, "DATABASE_URL: empty");
        says(words, no_server, 1, unset);
    }
    says({"doctor"}, {{"DATABASE_URL", s.database.url()}, {"AMQP_URL", ""}}, 2, "AMQP_URL: empty");
    std::vector<std::string> const declare{"declare", "--service", "payments", "--database",
                                           "00000000-0000-7000-8000-000000000001"};
    says(declare, {{"AMQP_URL", "amqp://guest:guest@127.0.0.1:1"}}, 1,
         "no connection to 127.0.0.1:1: nothing accepts a connection there (AMQP_URL names the broker)");

    auto variables = s.variables;
    variables.erase("DATABASE_URL");
    variables.insert(no_server.begin(), no_server.end());
    service_process service{shop::program("payment"), {}, variables};
    service.start();
    CHECK_MESSAGE(wait_until([&] { return service.has_logged(unset); }), service.log());
}

TEST_CASE("an address that this machine lacks is named, and the service ends with 1: it may have it later")
{
    one_service s;
    s.refuses({"--listen", "192.0.2.1:80"}, {}, "192.0.2.1:80", 1);
    s.refuses({}, {{"SKALD_HEALTH_LISTEN", "192.0.2.1:80"}}, "192.0.2.1:80", 1);
}

TEST_CASE("a port that is taken is named, and the service ends with 1: it may be free later")
{
    one_service s;
    int const taken = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(taken, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(taken, 1) == 0);
    socklen_t size = sizeof address;
    ::getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size);
    auto const where = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    s.refuses({"--listen", where}, {}, where, 1);
    ::close(taken);
}

TEST_CASE("two services in one database: the second is refused and leaves nothing in it")
{
    one_service s;
    service_process payments{shop::program("payment"), {}, s.variables};
    payments.start();
    REQUIRE(wait_until([&] { return payments.has_logged("worker.started"); }));
    service_process shipping{shop::program("shipping"), {}, s.variables};
    auto const end = shipping.run();
    CHECK(end.code == 2);
    CHECK_MESSAGE(shipping.has_logged("belongs to the service payments"), shipping.log());
    CHECK(s.database.value("SELECT to_regclass('public.stock')") == "<null>");
    CHECK(s.database.count("skald.migration WHERE owner = 'shipping'") == 0);
    CHECK(payments.terminate().code == 0);
}

TEST_CASE("a queue that exists with other arguments is a clear error at start")
{
    one_service s;
    amqp_hands hands{broker()};
    hands.delete_queue("skald.payments");
    hands.declare_queue("skald.payments");
    s.refuses({}, {}, "skald.payments");
    hands.delete_queue("skald.payments");
}

TEST_CASE("an exchange that exists with another type is a clear error at start")
{
    one_service s;
    {
        amqp_hands hands{broker()};
        hands.delete_exchange("skald");
        hands.declare_exchange("skald", "fanout");
        s.refuses({}, {}, "skald");
        hands.delete_exchange("skald");
    }
}

TEST_CASE("a schema that a newer or another Skald changed is refused, not used")
{
    one_service s;
    {
        service_process payments{shop::program("payment"), {}, s.variables};
        payments.start();
        REQUIRE(wait_until([&] { return payments.has_logged("worker.started"); }));
        CHECK(payments.terminate().code == 0);
    }
    s.database.ask("UPDATE skald.migration SET checksum = 'x' WHERE owner = 'skald' AND name = '0002_guard'");
    s.refuses({}, {}, "0002_guard");
}

TEST_CASE("too few file descriptors for the connections that are allowed are told at start, with what to do")
{
    fresh_database const database{"configuration"};
    auto const run = [&](std::string const& limit) {
        service_process service{"/bin/sh",
                                {"-c", limit + "; exec " + shop::program("payment") + " --listen 127.0.0.1:0"},
                                shop::variables(database)};
        service.start();
        bool const has_started =
            wait_until([&] { return service.has_logged(" worker.started ") || !service.is_running(); }) &&
            service.is_running();
        auto const end = service.terminate();
        CHECK(end.code == (has_started ? 0 : 2));
        return service.log();
    };
    auto const refused = run("ulimit -n 1000");
    for (auto const* words : {"1000 file descriptors", "SKALD_HTTP_CONNECTIONS_MAX", "ulimit -n ", "LimitNOFILE="})
        CHECK_MESSAGE(refused.find(words) != std::string::npos, refused);
    auto const raised = run("ulimit -Sn 1000");  // the soft limit alone: the service raises it itself
    CHECK_MESSAGE(raised.find(" worker.started ") != std::string::npos, raised);
    CHECK_MESSAGE(raised.find(" health=127.0.0.1:") != std::string::npos, raised);
}

TEST_CASE("a start that waits for a lock says so, answers its probes, ends when it is told to, and goes on when it may")
{
    fresh_database const database{"configuration"};
    service_process service{shop::program("payment"), {}, shop::variables(database)};
    auto const waits = [&] { return wait_until([&] { return service.has_logged(" database.waiting "); }); };
    auto const probe = [&](std::string const& target) {
        return raw_client{service.health_port()}.ask("GET " + target + " HTTP/1.1\r\nHost: probe\r\n\r\n").status;
    };
    pqxx::connection other{database.url()};
    pqxx::nontransaction session{other};
    session.exec("SELECT pg_advisory_lock(hashtextextended('skald.migration', 0))");

    service.start();
    REQUIRE(waits());
    CHECK(service.has_logged("another process migrates this database"));
    CHECK(probe("/livez") == 200);
    CHECK(probe("/readyz") == 503);
    CHECK(service.terminate().code == 0);

    service.start();
    REQUIRE(waits());
    session.exec("SELECT pg_advisory_unlock_all()");
    CHECK(wait_until([&] { return service.has_logged(" worker.started "); }));
    CHECK(probe("/readyz") == 200);
    CHECK(service.terminate().code == 0);
}

TEST_CASE("a start that meets a deadlock or a locked table says so, ends when it is told to, and goes on when it may")
{
    fresh_database database{"configuration"};
    service_process service{shop::program("payment"), {}, shop::variables(database)};
    auto const starts = [&] {
        service.start();
        CHECK(wait_until([&] { return service.has_logged(" database.waiting ") || !service.is_running(); }));
        CHECK(service.has_logged("another session holds a lock that the start needs: "));
    };
    auto const has_started = [&] {
        CHECK(wait_until([&] { return service.has_logged(" worker.started ") || !service.is_running(); }));
        REQUIRE(service.is_running());
        CHECK(service.terminate().code == 0);
    };
    service.start();
    has_started();
    service.set_variable("SKALD_MIGRATE", "off");
    for (std::string const table : {"skald.service", "skald.hosted"}) {
        CAPTURE(table);
        database.ask("CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS "
                     "'BEGIN RAISE deadlock_detected; END';"
                     "CREATE TRIGGER conflict BEFORE INSERT OR UPDATE OR DELETE ON " +
                     table + " EXECUTE FUNCTION conflict()");
        starts();
        database.ask("DROP FUNCTION conflict CASCADE");
        has_started();

        pqxx::connection other{database.url()};
        pqxx::work holding{other};
        holding.exec("LOCK TABLE " + table);
        starts();
        CHECK(service.terminate().code == 0);
        starts();
        holding.abort();
        has_started();
    }
}

TEST_CASE("a process with another database than its service's takes no message, and says why it does not start")
{
    one_service right;
    fresh_database wrong{"wrong"};
    service_process first{shop::program("payment"), {}, right.variables};
    first.start();
    REQUIRE(wait_until([&] { return first.has_logged(" worker.started "); }));
    right.refuses({}, {{"DATABASE_URL", wrong.url()}}, "the messages for payments belong to another database");
    right.refuses({}, {{"DATABASE_URL", wrong.url()}}, "`rabbitmqctl --vhost e2e-");
    CHECK(first.is_running());
    CHECK(first.terminate().code == 0);
    first.start();  // its own database it has again
    REQUIRE(wait_until([&] { return first.has_logged(" worker.started "); }));
    CHECK(first.terminate().code == 0);
}

TEST_CASE("a migration that waits for a table lets those that only use the table go first")
{
    fresh_database database{"configuration"};
    service_process service{shop::program("payment"), {}, shop::variables(database)};
    service.start();
    REQUIRE(wait_until([&] { return service.has_logged(" worker.started "); }));
    CHECK(service.terminate().code == 0);
    // It is to run again, which makes a trigger for a table that somebody writes.
    database.ask("DROP FUNCTION skald.refuse_open_transaction() CASCADE");
    database.ask("DELETE FROM skald.migration WHERE owner = 'skald' AND name = '0003_open'");
    pqxx::connection has_it{database.url()}, writes{database.url()};
    pqxx::work holding{has_it};
    holding.exec("DELETE FROM skald.idempotency");
    service.start();
    REQUIRE(wait_until([&] { return service.has_logged(" database.waiting "); }));
    pqxx::work writing{writes};
    writing.exec("SET LOCAL lock_timeout = '20s'");
    CHECK_NOTHROW(writing.exec("DELETE FROM skald.idempotency"));
    writing.abort();
    CHECK(service.terminate().code == 0);
}
