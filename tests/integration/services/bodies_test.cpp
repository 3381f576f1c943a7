// Data that is kept in a directory, handed from service to service over a real broker.
#include "support/shop.hpp"
#include "support/temporary_directory.hpp"

#include <filesystem>
#include <set>

using namespace skald::test;

namespace {

namespace fs = std::filesystem;

class shop_with_directory : public shop
{
public:
    temporary_directory const place;
    fs::path const& folder{place.path()};
    std::string const customer{std::string(2'000, 'n')};

    shop_with_directory()
    {
        for (auto* service : services()) {
            service->set_variable("SKALD_BODY_STORE", "directory:" + folder.string());
            service->set_variable("SKALD_BODY_INLINE_MAX", "1024");
        }
        open();
        payments_db.ask("INSERT INTO wallet VALUES ('" + customer + "', 1000)");
    }

    /// Whatever is as large as the data: not the marks.
    std::set<fs::path> bodies() const
    {
        std::set<fs::path> found;
        for (auto const& one : fs::recursive_directory_iterator{folder})
            if (one.is_regular_file() && one.file_size() > 1024) found.insert(one.path());
        return found;
    }
    // With the service's own program and settings.
    bool rehearses(std::string const& key)
    {
        service_process command{SKALD_SERVICES_DIR "/payment_service",
                                {"--rehearse", key},
                                {{"DATABASE_URL", payments_db.url()},
                                 {"AMQP_URL", broker().url()},
                                 {"SKALD_BODY_STORE", "directory:" + folder.string()}}};
        command.start();
        return command.wait().code == 0;
    }
    bool replay_parked()
    {
        service_process command{SKALD_TOOL,
                                {"parked", "replay", "--all"},
                                {{"DATABASE_URL", payments_db.url()}, {"PATH", "/usr/bin:/bin"}}};
        command.start();
        return command.wait().code == 0;
    }
};

}  // namespace

TEST_CASE_FIXTURE(shop_with_directory, "large data goes from service to service by reference, forward and back")
{
    REQUIRE(order("done", {.customer = customer}).status == 202);
    REQUIRE(order("undone", {.customer = customer, .sku = "rare"}).status == 202);
    CHECK(ends("done", "completed"));
    CHECK(ends("undone", "compensated"));
    CHECK(bodies().size() >= 2);
    CHECK(orders_db.count("skald.saga WHERE kept IS NOT NULL AND length(data::text) < 200") == 2);
    for (auto* database : databases()) CHECK(database->count("skald.body") == 0);
    CHECK(payments_db.value("SELECT count(*) FROM charge WHERE kind = 'charge' AND length(customer) = 2000") == "2");
    CHECK(payments_db.count("charge WHERE kind = 'refund'") == 1);
    CHECK(parked_in_all() == 0);
    close_in_order();
}

TEST_CASE_FIXTURE(shop_with_directory, "a body that is away parks its delivery, and a replay runs it once it is back")
{
    payments.kill(SIGTERM);
    CHECK(payments.wait().code == 0);
    REQUIRE(order("lost", {.customer = customer}).status == 202);
    REQUIRE(outboxes_empty());
    auto const all = bodies();
    REQUIRE(!all.empty());
    auto const away = [](fs::path const& body) { return body.string() + ".away"; };
    for (auto const& body : all) fs::rename(body, away(body));
    payments.start();
    REQUIRE(wait_until([&] { return payments_db.count("skald.parked WHERE reason = 'body_missing'") == 1; }));
    CHECK(payments_db.count("charge") == 0);
    CHECK(!rehearses("lost:charge-payment"));
    CHECK(wait_until([&] { return status("lost") == "stuck"; }));
    for (auto const& body : all) fs::rename(away(body), body);
    CHECK(rehearses("lost:charge-payment"));
    CHECK(replay_parked());
    CHECK(ends("lost", "completed"));
    CHECK(payments_db.count("charge") == 1);
    close_in_order();
}
