// The order example with roles that own nothing and may alter nothing: what a service needs at run time is granted.
#include "support/server_setting.hpp"
#include "support/shop.hpp"

#include <pqxx/pqxx>

using namespace skald::test;

namespace {

class modest_shop : public shop
{
public:
    modest_shop()
    {
        orders_db.ask("CREATE ROLE " + role + " LOGIN");
        for (std::size_t n = 0; n < service_names.size(); ++n) {
            auto& database = *databases()[n];
            service_process owner{program(n == 0   ? "order"
                                          : n == 1 ? "payment"
                                                   : "shipping"),
                                  {"--migrate", "only"},
                                  {{"DATABASE_URL", database.url()}, {"PATH", "/usr/bin:/bin"}}};
            auto const prepared = owner.run();
            REQUIRE_MESSAGE(prepared.code == 0, owner.log());
            auto const granted = skald({"migrate", "--service", service_names[n], "--grant", role}, database.url());
            REQUIRE_MESSAGE(granted.first == 0, granted.second);
            database.ask("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO " + role);
            services()[n]->set_variable("DATABASE_URL", as_role(database));
            services()[n]->set_variable("SKALD_MIGRATE", "off");
        }
    }
    ~modest_shop()
    {
        for (auto* service : services()) service->terminate();
        for (auto* database : databases()) database->ask("DROP OWNED BY " + role);
        orders_db.ask("DROP ROLE " + role);
    }

    std::string as_role(fresh_database const& database) const
    {
        auto url = database.url();
        auto const user = url.find("://") + 3;
        return url.replace(user, url.find_first_of(":@", user) - user, role);
    }

    static std::pair<int, std::string> skald(std::vector<std::string> const& words, std::string const& url)
    {
        service_process command{
            SKALD_TOOL, words, {{"DATABASE_URL", url}, {"AMQP_URL", broker().url()}, {"PATH", "/usr/bin:/bin"}}};
        command.start();
        auto const end = command.wait();
        return {end.code.value_or(-1), command.log()};
    }

    std::string const role{"modest_" + random_word()};
};

}  // namespace

TEST_CASE_FIXTURE(modest_shop, "services and commands run as a role that owns nothing, and may alter nothing")
{
    no_absent_standby const meanwhile;
    service_process eager{program("order"), {}, {{"DATABASE_URL", as_role(orders_db)}, {"PATH", "/usr/bin:/bin"}}};
    CHECK(eager.run().code == 2);
    CHECK_MESSAGE(eager.has_logged("can't be migrated: ERROR:  permission denied for database"), eager.log());
    CHECK(eager.has_logged("SKALD_MIGRATE=off"));
    orders_db.ask("REVOKE USAGE ON SCHEMA skald FROM " + role);
    service_process denied{program("order"),
                           {},
                           {{"DATABASE_URL", as_role(orders_db)}, {"SKALD_MIGRATE", "off"}, {"PATH", "/usr/bin:/bin"}}};
    CHECK(denied.run().code == 2);
    CHECK_MESSAGE(denied.has_logged("permission denied for schema skald"), denied.log());
    CHECK(denied.has_logged("(`skald migrate --grant ROLE` grants what a service needs)"));
    CHECK(skald({"migrate", "--grant", role}, orders_db.url()).first == 0);
    open();
    CHECK(order("done").status == 202);
    CHECK(order("undone", {.sku = "rare"}).status == 202);
    CHECK(order("done").has("Idempotency-Replayed: true"));
    CHECK(ends("done", "completed"));
    CHECK(ends("undone", "compensated"));
    CHECK(order("late", {.customer = "ann"}).status == 202);

    for (auto const& words : std::vector<std::vector<std::string>>{{"doctor"},
                                                                   {"saga", "list"},
                                                                   {"saga", "show", "done"},
                                                                   {"parked", "list"},
                                                                   {"outbox", "status"},
                                                                   {"purge"},
                                                                   {"relay", "--until-empty"}}) {
        auto const [code, text] = skald(words, as_role(orders_db));
        CHECK_MESSAGE(code == 0, words.front(), ": ", text);
    }
    // Refused for what it is, and not for want of a permission.
    auto const cancelled = skald({"saga", "cancel", "done", "--reason", "late"}, as_role(orders_db));
    CHECK_MESSAGE(cancelled.second.find("has ended") != std::string::npos, cancelled.second);

    for (auto* database : databases()) {
        CHECK(database->value(
                  "SELECT count(*) FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid WHERE d.deptype = 'o' "
                  "AND r.rolname = '" +
                  role + "'") == "0");
        pqxx::connection c{as_role(*database)};
        for (auto const* statement : {"ALTER TABLE skald.outbox ADD COLUMN more text", "DROP FUNCTION skald.advance",
                                      "DELETE FROM skald.migration", "CREATE TABLE skald.another (n int)"})
            CHECK_THROWS_AS(pqxx::nontransaction{c}.exec(statement), pqxx::insufficient_privilege);
    }
    CHECK(parked_in_all() == 0);
    for (auto* service : services()) CHECK(!service->has_logged("permission denied"));
}

TEST_CASE_FIXTURE(
    modest_shop,
    "skald doctor, run by the owner, names the role of a worker that lacks a right, and what gives it back")
{
    no_absent_standby const meanwhile;
    open();
    auto const well = skald({"doctor"}, payments_db.url());
    CHECK_MESSAGE(well.first == 0, well.second);
    payments_db.ask("REVOKE INSERT ON skald.outbox FROM " + role);
    auto const [code, text] = skald({"doctor"}, payments_db.url());
    CHECK(code == 1);
    CHECK_MESSAGE(text.find("the role " + role +
                            ", as which payments is connected, lacks INSERT on skald.outbox; run "
                            "`skald migrate --grant " +
                            role + '`') != std::string::npos,
                  text);
    CHECK(skald({"migrate", "--grant", role}, payments_db.url()).first == 0);
    CHECK(skald({"doctor"}, payments_db.url()).first == 0);

    payments_db.ask("REVOKE EXECUTE ON FUNCTION skald.claim FROM public, " + role);
    for (auto const& url : {payments_db.url(), as_role(payments_db)}) {
        auto const without = skald({"doctor"}, url);
        CHECK(without.first == 1);
        CHECK_MESSAGE(without.second.find("the role " + role +
                                          ", as which payments is connected, lacks EXECUTE on skald.claim; run `skald "
                                          "migrate --grant " +
                                          role + '`') != std::string::npos,
                      without.second);
    }
    payments_db.ask("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA skald FROM public, " + role);
    CHECK(skald({"doctor"}, payments_db.url()).second.find(" other functions; run `skald migrate --grant ") !=
          std::string::npos);
    CHECK(skald({"migrate", "--grant", role}, payments_db.url()).first == 0);
    CHECK(skald({"doctor"}, payments_db.url()).first == 0);
}

TEST_CASE_FIXTURE(modest_shop, "skald doctor says what its role may not look at, what gives it the right, and the rest")
{
    no_absent_standby const meanwhile;
    open();
    auto const says = [&](std::string const& text, std::string const& what) {
        CHECK_MESSAGE(text.find(what) != std::string::npos, what, ": ", text);
    };
    auto const remedy = "run `skald migrate --grant " + role + '`';
    payments_db.ask("REVOKE SELECT ON skald.parked FROM " + role);
    auto const [code, text] = skald({"doctor"}, as_role(payments_db));
    CHECK(code == 1);
    says(text, "problem  parked                 not examined: permission denied for table parked; `privileges` says");
    says(text, "lacks SELECT on skald.parked; " + remedy);
    for (std::string const check : {"outbox", "stuck sagas", "versions", "locks", "queue", "publishing"})
        says(text, "\nok       " + check + ' ');

    payments_db.ask("REVOKE ALL ON SCHEMA skald FROM public, " + role);
    auto const blind = skald({"doctor"}, as_role(payments_db));
    CHECK(blind.first == 1);
    says(blind.second, "lacks USAGE on the schema skald");
    says(blind.second, remedy);
    says(blind.second, "not examined: permission denied for schema skald");
    says(blind.second, "\nok       publishing ");
    CHECK(skald({"migrate", "--grant", role}, payments_db.url()).first == 0);
    CHECK(skald({"doctor"}, as_role(payments_db)).first == 0);
}

TEST_CASE_FIXTURE(modest_shop, "a service that waits for the schema waits for its grants too, which come after it")
{
    auto& payments = *services()[1];
    payments_db.ask("DROP TABLE skald.hosted_version; DELETE FROM skald.migration WHERE name = '0018_versions';"
                    // As if that migration had brought it.
                    "REVOKE ALL ON skald.hosted FROM " +
                    role);
    payments.start();
    REQUIRE(wait_until([&] { return payments.has_logged("it lacks 0018_versions; run"); }));
    CHECK(skald({"migrate"}, payments_db.url()).first == 0);
    auto const told = "permission denied for table hosted (`skald migrate --grant ROLE` grants what a service needs)";
    CHECK_MESSAGE(wait_until([&] { return payments.has_logged(told) || !payments.is_running(); }), payments.log());
    CHECK(skald({"migrate", "--grant", role}, payments_db.url()).first == 0);
    CHECK(wait_until([&] { return payments.has_logged(" worker.started ") || !payments.is_running(); }));
    CHECK(payments.terminate().code == 0);
}

TEST_CASE("a grant to a role that is not there says so")
{
    fresh_database database{"orders"};
    auto const [code, text] =
        modest_shop::skald({"migrate", "--service", "orders", "--grant", "nobody_of_that_name"}, database.url());
    CHECK(code != 0);
    CHECK_MESSAGE(text.find("there is no role nobody_of_that_name") != std::string::npos, text);
}
