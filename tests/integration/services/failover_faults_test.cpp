// The primary dies, and a synchronous standby takes over: nothing that was answered is lost, and nothing happens twice.
// Run by scripts/failover.sh, which makes the servers.
#include "support/customers.hpp"
#include "support/peers_file.hpp"

using namespace skald::test;

namespace {

void fail_over()
{
    run_command(std::string{SKALD_FAILOVER_SCRIPT} + " fail '" + required("SKALD_FAILOVER_DIR") + "'");
}

void end_every_order_once_over_a_failover(shop& s)
{
    s.open();
    auto const pids = std::array{s.orders.pid(), s.payments.pid(), s.shipping.pid()};
    customers load{s}, more{s, "more"};
    REQUIRE(reaches(load, 60));
    fail_over();
    int const then = load.accepted();
    CHECK(reaches(load, then + 60));
    CHECK(s.orders_db.value("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)") == "00000002");

    int const accepted = load.stop() + more.stop();
    for (auto const* customer : {&load, &more})
        for (auto const& wrong : customer->wrong()) FAIL_CHECK(wrong);
    CHECK(s.all_end(std::chrono::seconds{90}));
    CHECK(s.outboxes_empty());
    CHECK(s.orders_db.count("customer_order") == accepted);
    CHECK(s.parked_in_all() == 0);
    s.check_books(100001, 1000);
    CHECK(pids == std::array{s.orders.pid(), s.payments.pid(), s.shipping.pid()});
    s.close_in_order();
    MESSAGE(accepted, " orders were accepted");
}

}  // namespace

TEST_CASE("the primary is killed and the standby promoted under load, and every order that was answered ends once")
{
    shop s;
    end_every_order_once_over_a_failover(s);
}

TEST_CASE("without a broker too every order that was answered ends once, when the primary dies with the inboxes")
{
    shop s;
    peers_file const peers{lines_of(s)};
    for (auto* service : s.services()) {
        service->set_variable("SKALD_TRANSPORT", "postgres");
        service->set_variable("SKALD_PEERS_FILE", peers.path);
    }
    end_every_order_once_over_a_failover(s);
    for (auto* database : s.databases()) CHECK(database->count("skald.inbox") == 0);
}
