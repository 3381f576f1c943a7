// A copy of a service's database, or one that was restored: nothing works in it before somebody has said that it may.
#include "support/server_setting.hpp"
#include "support/shop.hpp"
#include "support/stack_control.hpp"

using namespace skald::test;

namespace {

service_process payment(fresh_database const& database)
{
    return {shop::program("payment"), {}, shop::variables(database)};
}

std::string tool(fresh_database const& database, std::vector<std::string> words, int code, bool with_broker = false)
{
    environment variables{{"DATABASE_URL", database.url()}};
    if (with_broker) variables.emplace("AMQP_URL", broker().url());
    service_process command{SKALD_TOOL, std::move(words), std::move(variables)};
    auto const end = command.run();
    CHECK_MESSAGE(end.code == code, command.log());
    return command.log();
}

void starts(fresh_database const& database)
{
    auto service = payment(database);
    service.start();
    CHECK_MESSAGE(wait_until([&] { return service.has_logged("worker.started"); }), service.log());
    CHECK(service.terminate().code == 0);
}

/// Neither with its migrations nor without, until an operator has adopted it.
void is_a_copy(fresh_database& copy)
{
    for (auto const* migrates : {"on", "off"}) {
        auto service = payment(copy);
        service.set_variable("SKALD_MIGRATE", migrates);
        CHECK(service.run().code == 2);
        CHECK_MESSAGE(service.has_logged("skald migrate --service payments --adopt"), service.log());
    }
    CHECK(tool(copy, {"doctor"}, 1).find("problem  copy") != std::string::npos);
    CHECK(tool(copy, {"relay", "--until-empty"}, 2, true).find("--adopt") != std::string::npos);
    tool(copy, {"migrate", "--service", "payments"}, 2);
    tool(copy, {"migrate", "--adopt"}, 2);
    CHECK(tool(copy, {"migrate", "--service", "shipping", "--adopt"}, 2).find("shipping") != std::string::npos);
    tool(copy, {"migrate", "--service", "payments", "--adopt"}, 0);
    CHECK(copy.value("SELECT verb FROM skald.audit") == "adopt");
    CHECK(tool(copy, {"doctor"}, 0).find("ok       copy") != std::string::npos);
    starts(copy);
}

void dump_and_restore(fresh_database const& from, fresh_database const& into, std::string const& how = {})
{
    run_command("file=$(mktemp) && trap 'rm $file' EXIT && pg_dump " + how + " '" + from.url() +
                "' > $file && psql -q -o /dev/null -v ON_ERROR_STOP=1 -f $file '" + into.url() + "'");
}

}  // namespace

TEST_CASE("a database that is restored from a dump, or copied, is not taken for the one that was dumped")
{
    no_absent_standby const meanwhile;
    fresh_database original{"original"};
    starts(original);
    SUBCASE("into another database")
    {
        fresh_database copy{"copy"};
        dump_and_restore(original, copy);
        is_a_copy(copy);
        starts(original);
    }
    SUBCASE("into the very same database, in the place of what it held")
    {
        dump_and_restore(original, original, "--clean --if-exists");
        is_a_copy(original);
    }
    SUBCASE("by the server, file by file")
    {
        fresh_database copy{"copy", original};
        is_a_copy(copy);
    }
}

TEST_CASE("a process whose database is replaced while it runs does nothing in the other one, and says why")
{
    shop s;
    s.open();
    REQUIRE(s.order("before").status == 202);
    REQUIRE(s.ends("before", "completed"));
    CHECK(s.payments.terminate().code == 0);
    fresh_database copy{"copy", s.payments_db};
    s.payments.start();
    s.wait_until_started(s.payments);
    fresh_database* now = &copy;
    SUBCASE("by a copy, under its name")
    {
        s.payments_db.give_name_to(copy);
    }
    SUBCASE("by a copy that was adopted")
    {
        tool(copy, {"migrate", "--service", "payments", "--adopt"}, 0);
        s.payments_db.give_name_to(copy);
    }
    SUBCASE("by what was restored from a dump, while its sessions go on")
    {
        dump_and_restore(s.payments_db, s.payments_db, "--clean --if-exists");
        now = &s.payments_db;
    }
    REQUIRE(s.order("after").status == 202);
    CHECK_MESSAGE(
        wait_until([&] { return s.payments.has_logged("this is another database than the one that this process"); }),
        s.payments.log());
    CHECK(s.payments.is_running());
    CHECK(now->count("charge") == 1);
    CHECK(s.status("after") == "running");
}

TEST_CASE("a relay sends nothing to a broker on which the messages of its service belong to another database")
{
    fresh_database here{"here"}, elsewhere{"elsewhere"};
    tool(here, {"migrate", "--service", "relayed"}, 0);
    tool(elsewhere, {"migrate", "--service", "relayed"}, 0);
    tool(elsewhere, {"declare", "--service", "relayed"}, 0, true);
    here.ask("SELECT skald.enqueue('relayed', 'skald.x', 'k:x', '')");
    CHECK(tool(here, {"relay", "--until-empty"}, 2, true).find("another database") != std::string::npos);
    CHECK(here.value("SELECT count(*) FROM skald.outbox") == "1");
}

TEST_CASE("a database that was only renamed, or whose tables were rewritten, is the same")
{
    fresh_database original{"original"};
    starts(original);
    original.ask("CLUSTER skald.service USING one_service_owns_a_database");
    auto const renamed = original.name() + "_b";
    original.rename(renamed);
    starts(original);
}
