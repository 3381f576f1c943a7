// What a newcomer forgets or mistypes, and what the service says to it.
#include "support/shop.hpp"

using namespace skald::test;

namespace {

service_process payment_with(environment changed, std::vector<std::string> arguments = {})
{
    return {shop::program("payment"), std::move(arguments), std::move(changed)};
}

std::size_t count_of(std::string const& text, std::string const& words)
{
    std::size_t n = 0;
    for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++n;
    return n;
}

}  // namespace

TEST_CASE("a database that does not exist: the statement that creates it is said")
{
    fresh_database const database{"newcomer"};
    auto variables = shop::variables(database);
    auto& url = variables["DATABASE_URL"];
    url = url.substr(0, url.rfind('/')) + "/No_such";
    auto service = payment_with(variables);
    service.start();
    CHECK_MESSAGE(wait_until([&] { return service.has_logged("create it with: CREATE DATABASE"); }), service.log());
    CHECK_MESSAGE(service.has_logged("No_such"), service.log());
    service.terminate();
}

TEST_CASE("routes without a listener are said")
{
    fresh_database const database{"newcomer"};
    service_process orders{shop::program("order"), {}, shop::variables(database)};
    orders.start();
    CHECK_MESSAGE(wait_until([&] { return orders.has_logged("http.no_listener"); }), orders.log());
    orders.terminate();
    auto payments = payment_with(shop::variables(database));  // has no routes
    CHECK_FALSE(payments.has_logged("http.no_listener"));
}

TEST_CASE("a broker that is away is one line for the process, and the start says it too")
{
    fresh_database const database{"newcomer"};
    auto variables = shop::variables(database);
    variables["AMQP_URL"] = "amqp://guest:guest@127.0.0.1:1";
    auto service = payment_with(variables);
    service.start();
    CHECK(wait_until([&] { return service.has_logged("worker.started"); }));
    CHECK(service.has_logged("broker=away"));
    CHECK(wait_until([&] { return service.has_logged("relay.waiting"); }));
    service.terminate();
    CHECK_MESSAGE(count_of(service.log(), "broker.lost") == 1, service.log());
}

TEST_CASE("the program's own flags are read before its service is made, and what that throws is one line")
{
    fresh_database const database{"newcomer"};
    auto const variables = shop::variables(database);
    for (auto const* form : {"--gateway nowhere", "--gateway=nowhere"}) {
        std::string const text{form};
        std::vector<std::string> words{text};
        if (auto const space = text.find(' '); space != std::string::npos)
            words = {text.substr(0, space), text.substr(space + 1)};
        auto service = payment_with(variables, words);
        CHECK(service.run().code == 2);
        CHECK_MESSAGE(service.has_logged("the gateway's address is HOST:PORT, and not `nowhere`"), service.log());
    }
    auto without_value = payment_with(variables, {"--gateway"});
    CHECK(without_value.run().code == 2);
    CHECK(without_value.has_logged("--gateway needs a value"));
    auto help = payment_with(variables, {"--help"});
    CHECK(help.run().code == 0);
    CHECK(help.has_logged("--gateway VALUE"));
}

TEST_CASE("a role that is called skald would mix the service's tables with Skald's, and is refused")
{
    fresh_database database{"newcomer"};
    database.ask("DO $$ BEGIN CREATE ROLE skald LOGIN SUPERUSER; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
    database.ask("ALTER ROLE skald LOGIN");
    auto variables = shop::variables(database);
    auto& url = variables["DATABASE_URL"];
    auto const at = url.find("://") + 3;
    url.replace(at, url.find('@') - at, "skald");
    auto service = payment_with(variables);
    CHECK(service.run().code == 2);
    CHECK_MESSAGE(service.has_logged("ALTER ROLE skald SET search_path = public"), service.log());
    CHECK(database.value("SELECT to_regclass('skald.wallet') IS NULL AND to_regclass('public.wallet') IS NULL") == "t");
    database.ask("ALTER ROLE skald SET search_path = public");
    service.start();
    CHECK_MESSAGE(wait_until([&] { return service.has_logged("worker.started"); }), service.log());
    service.terminate();
    CHECK(database.value("SELECT to_regclass('public.wallet') IS NOT NULL") == "t");
    database.ask("ALTER ROLE skald RESET search_path");
    database.ask("ALTER ROLE skald NOLOGIN");
}
