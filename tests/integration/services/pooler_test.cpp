// A real pgbouncer before the database: `skald doctor` tells its modes apart, and what can't work behind it refuses to.
#include "support/pooler.hpp"
#include "support/server_setting.hpp"
#include "support/shop.hpp"

using namespace skald::test;

namespace {

struct told
{
    int code{};
    std::string text;
};

told run_at(std::string const& database_url, std::string program, std::vector<std::string> words)
{
    auto variables =
        environment{{"DATABASE_URL", database_url}, {"AMQP_URL", broker().url()}, {"PATH", "/usr/bin:/bin"}};
    service_process process{std::move(program), std::move(words), std::move(variables)};
    auto const end = process.run();
    return {end.code.value_or(-1), process.log()};
}

/// What `skald doctor` says of the pooler, and its exit code; `words` is what its text says.
void check_doctor(std::string const& url, int code, std::string const& level, std::string const& words)
{
    auto const answer = run_at(url, SKALD_TOOL, {"doctor", "--json"});
    CHECK_MESSAGE(answer.code == code, answer.text);
    auto const checks = json::parse(answer.text)["checks"];
    auto const found = std::ranges::find_if(checks, [](json const& one) { return one["check"] == "pooler"; });
    REQUIRE_MESSAGE(found != checks.end(), answer.text);
    CHECK_MESSAGE((*found)["level"] == level, answer.text);
    CHECK_MESSAGE((*found)["means"].get<std::string>().find(words) != std::string::npos, answer.text);
    CHECK_MESSAGE((*found)["remedy"].get<std::string>().empty() == (level == "ok"), answer.text);

    auto const text = run_at(url, SKALD_TOOL, {"doctor"});
    CHECK_MESSAGE(text.code == code, text.text);
    auto const line = level + std::string(9 - level.size(), ' ') + "pooler ";
    CHECK_MESSAGE(text.text.find(line) != std::string::npos, text.text);
}

constexpr auto by_transaction = "hands out server connections for one transaction at a time";
constexpr auto remedy = "pool_mode = session";

/// A database that is in order but for what stands before it.
void migrate(fresh_database const& database)
{
    REQUIRE(run_at(database.url(), SKALD_TOOL, {"migrate", "--service", "orders"}).code == 0);
    amqp_hands hands{broker()};
    for (std::string const queue : {"skald.orders", "skald.orders.parked"}) hands.delete_queue(queue);
    service_process once{shop::program("order"), {}, shop::variables(database)};
    once.start();
    REQUIRE(wait_until([&] { return once.has_logged(" worker.started "); }));
    REQUIRE(once.terminate().code == 0);
}

bool is_untouched(fresh_database& database)
{
    return database.value("SELECT to_regnamespace('skald') IS NULL") == "t" &&
           database.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = "
                          "(SELECT oid FROM pg_database WHERE datname = current_database())") == "0";
}

}  // namespace

TEST_CASE("skald doctor tells a pooler by transaction, one by session and none apart")
{
    no_absent_standby const meanwhile;
    fresh_database database{"orders"};
    migrate(database);
    check_doctor(database.url(), 0, "ok", "connected to the server itself");
    check_doctor(pooler{"session"}.url(database), 0, "warning", "session mode");
    // With one server connection for all; with many, and the next one each time; and as it comes.
    for (std::string const more : {"default_pool_size = 1", "server_round_robin = 1", ""}) {
        CAPTURE(more);
        pooler const between{"transaction", more};
        check_doctor(between.url(database), 1, "problem", "transaction mode");
    }
    check_doctor(pooler{"statement"}.url(database), 1, "problem", "transaction mode");
}

TEST_CASE("skald doctor tells of a pooler that is too small for a second session")
{
    no_absent_standby const meanwhile;
    fresh_database database{"orders"};
    migrate(database);
    check_doctor(pooler{"session", "default_pool_size = 1"}.url(database), 1, "problem", "too small, or used up");
}

TEST_CASE("behind a pooler by transaction migrations and workers refuse to start, and have touched nothing")
{
    fresh_database database{"orders"};
    pooler const between{"transaction"};
    std::string const service = shop::program("order");
    for (auto const& [program, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
             {SKALD_TOOL, {"migrate"}}, {service, {}}, {service, {"--migrate", "off"}}}) {
        auto const refused = run_at(between.url(database), program, words);
        CHECK_MESSAGE(refused.code == 2, refused.text);
        CHECK_MESSAGE(refused.text.find(by_transaction) != std::string::npos, refused.text);
        CHECK_MESSAGE(refused.text.find(remedy) != std::string::npos, refused.text);
        CHECK(is_untouched(database));
    }
}

TEST_CASE("behind a pooler by transaction no command sets anything on somebody else's session")
{
    fresh_database database{"orders"};
    migrate(database);
    pooler const between{"transaction", "default_pool_size = 1"};
    pqxx::connection somebody{between.url(database)};
    auto const lock_timeout = [&] {
        return pqxx::nontransaction{somebody}.exec("SHOW lock_timeout")[0][0].as<std::string>();
    };
    auto const before = lock_timeout();
    for (std::vector<std::string> const& words : std::vector<std::vector<std::string>>{
             {"saga", "list"}, {"parked", "list"}, {"outbox", "status"}, {"purge"}, {"relay", "--until-empty"}}) {
        auto const refused = run_at(between.url(database), SKALD_TOOL, words);
        CHECK_MESSAGE(refused.code == 2, refused.text);
        CHECK_MESSAGE(refused.text.find(by_transaction) != std::string::npos, refused.text);
    }
    CHECK(lock_timeout() == before);
}

TEST_CASE("behind a pooler by session sagas run as they do without, also where it is killed under them")
{
    shop s;
    pooler between{"session"};
    s.orders.set_variable("DATABASE_URL", between.url(s.orders_db));
    s.payments.set_variable("DATABASE_URL", between.url(s.payments_db));
    s.shipping.set_variable("DATABASE_URL", between.url(s.shipping_db));
    s.open();
    for (int i = 0; i < 40; ++i) {
        order_request const what{.sku = i % 4 == 0 ? "rare" : "lamp"};
        if (i % 10 == 9) between.kill_and_restart();
        REQUIRE(wait_until([&] { return s.order("k" + std::to_string(i), what).status == 202; }));
    }
    REQUIRE(s.all_end());
    REQUIRE(s.outboxes_empty());
    s.check_books(100001, 1000);
    CHECK(s.orders_db.count("skald.saga") == 40);
    CHECK(s.parked_in_all() == 0);
    s.close_in_order();
}
