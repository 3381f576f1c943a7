// The primary dies, and a synchronous standby takes over: nothing that was answered is lost, and nothing happens twice.
// Run by scripts/failover.sh, which makes the servers.
#include "support/customers.hpp"

using namespace skald::test;

namespace {

void fail_over()
{
    run_command(std::string{SKALD_FAILOVER_SCRIPT} + " fail '" + required("SKALD_FAILOVER_DIR") + "'");
}

}  // namespace

TEST_CASE("the primary is killed and the standby promoted under load, and every order that was answered ends once")
{
    shop s;
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
