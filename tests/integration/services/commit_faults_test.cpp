// COMMIT that hangs, that is cut short, and a node that takes no writes any more: what no timeout of the server's
// bounds, and what a client must never hear as "failed" or as "done" (reliability F3).
#include <atomic>
#include <thread>

#include "support/server_setting.hpp"
#include "support/shop.hpp"

using namespace skald::test;
using namespace std::chrono_literals;

namespace {

std::string waiting_for_standbys(fresh_database& database)
{
    auto const rows = database.ask("SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                                   " AND wait_event = 'SyncRep' AND application_name LIKE 'skald/%'");
    return rows.empty() ? "" : rows[0][0];
}

std::string unacked(std::string const& queue)
{
    std::istringstream lines{
        rabbitmqctl("-q list_queues --no-table-headers -p " + broker().vhost + " name messages_unacknowledged")};
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with(queue + '\t')) return line.substr(queue.size() + 1);
    return {};
}

void be_impatient(service_process& service, std::vector<std::string> arguments = {})
{
    for (std::string const word : {"--statement-timeout-ms", "500", "--commit-timeout-ms", "500"})
        arguments.push_back(word);
    service.set_arguments(std::move(arguments));
}

}  // namespace

TEST_CASE("a COMMIT that waits for a standby for ever is cut off, and its delivery is processed when it may end")
{
    shop s;
    be_impatient(s.orders, {"--listen", "127.0.0.1:0"});
    be_impatient(s.payments);
    s.open();
    REQUIRE(s.order("before").status == 202);
    REQUIRE(s.ends("before", "completed"));
    CHECK(s.payments.terminate().code == 0);
    REQUIRE(s.order("waits").status == 202);
    REQUIRE(s.outboxes_empty());

    absent_standby standby;
    s.payments.start();
    REQUIRE(wait_until([&] { return s.payments.has_logged("no answer within 1000 ms"); }));
    CHECK(wait_until([] { return unacked("skald.payments") == "1"; }));
    CHECK(s.status("waits") == "running");

    for (int i = 0; i < 3; ++i) {
        auto const answer = s.order("asked");
        CHECK((answer.status == 503 || (i > 0 && answer.status == 409)));
        CHECK(!answer.value_of("Retry-After").empty());
        CHECK(answer.body.find("had no effect") == std::string::npos);
    }
    standby.reset();
    CHECK(s.ends("waits", "completed", 60s));
    CHECK(wait_until([&] { return s.order("asked").status == 202; }));
    CHECK(s.ends("asked", "completed", 60s));
    CHECK(s.all_acked());
    CHECK(s.payments_db.count("charge") == 3);
    CHECK(s.parked_in_all() == 0);
    s.check_books(100001, 1000);
    s.close_in_order();
}

TEST_CASE(
    "a request whose COMMIT was made to stop waiting for the standby is not answered before a standby could have it")
{
    shop s;
    s.open();
    absent_standby standby;
    std::atomic<int> answered{0};
    raw_answer answer;
    std::jthread const client{[&] {
        answer = s.order("k");
        answered = 1;
    }};
    std::string pid;
    REQUIRE(wait_until([&] { return !(pid = waiting_for_standbys(s.orders_db)).empty(); }));
    s.orders_db.ask("SELECT pg_cancel_backend(" + pid + ")");
    REQUIRE(wait_until([&] { return s.orders.has_logged("possibly not durably"); }));
    // The record is there to be seen; still it is not taken for decided.
    CHECK(s.orders_db.count("customer_order") == 1);
    REQUIRE(wait_until([&] { return !waiting_for_standbys(s.orders_db).empty(); }));
    CHECK(answered == 0);
    standby.reset();
    CHECK(wait_until([&] { return answered == 1; }));
    CHECK(answer.status == 202);
    CHECK(answer.value_of("Idempotency-Replayed") == "true");
    CHECK(s.ends("k", "completed"));
    CHECK(s.orders_db.count("customer_order") == 1);
    s.check_books(100001, 1000);
    s.close_in_order();
}

TEST_CASE("a delivery whose COMMIT was made to stop waiting for the standby is acked only when a standby could have it")
{
    shop s;
    s.open();
    CHECK(s.payments.terminate().code == 0);
    REQUIRE(s.order("k").status == 202);
    REQUIRE(s.outboxes_empty());
    absent_standby standby;
    s.payments.start();
    std::string pid;
    REQUIRE(wait_until([&] { return !(pid = waiting_for_standbys(s.payments_db)).empty(); }));
    s.payments_db.ask("SELECT pg_cancel_backend(" + pid + ")");
    REQUIRE(wait_until([&] { return s.payments.has_logged("possibly not durably"); }));
    CHECK(s.payments_db.count("charge") == 1);
    REQUIRE(wait_until([&] { return !waiting_for_standbys(s.payments_db).empty(); }));
    CHECK(wait_until([] { return unacked("skald.payments") == "1"; }));
    standby.reset();
    CHECK(s.ends("k", "completed"));
    CHECK(s.all_acked());
    CHECK(s.payments_db.count("charge") == 1);
    s.close_in_order();
}

TEST_CASE("a record that is there for want of patience with the standby is not believed by a process that came later")
{
    shop s;
    s.open();
    CHECK(s.payments.terminate().code == 0);
    REQUIRE(s.order("k").status == 202);
    REQUIRE(s.outboxes_empty());
    absent_standby standby;
    s.payments.start();
    std::string pid;
    REQUIRE(wait_until([&] { return !(pid = waiting_for_standbys(s.payments_db)).empty(); }));
    s.payments.kill(SIGKILL);
    s.payments_db.ask("SELECT pg_cancel_backend(" + pid + ")");
    REQUIRE(wait_until([&] { return s.payments_db.count("charge") == 1; }));
    s.payments.start();
    // It knows of no doubt, and waits all the same.
    REQUIRE(wait_until([&] { return !waiting_for_standbys(s.payments_db).empty(); }));
    CHECK(wait_until([] { return unacked("skald.payments") == "1"; }));
    CHECK(s.status("k") == "running");
    standby.reset();
    CHECK(s.ends("k", "completed"));
    CHECK(s.all_acked());
    CHECK(s.payments_db.count("charge") == 1);
    s.close_in_order();
}

TEST_CASE("a command whose COMMIT was made to stop waiting for the standby says so")
{
    shop s;
    s.open();
    CHECK(s.payments.terminate().code == 0);
    REQUIRE(s.order("k").status == 202);
    REQUIRE(s.outboxes_empty());
    absent_standby standby;
    for (std::vector<std::string> const& words :
         {std::vector<std::string>{"saga", "pause", "k"}, {"saga", "resume", "--definition", "place-order", "--yes"}}) {
        service_process command{SKALD_TOOL, words, shop::variables(s.orders_db)};
        command.start();
        // For many, the end of the order is a commit too.
        REQUIRE(wait_until([&] {
            s.orders_db.ask("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                            " AND wait_event = 'SyncRep' AND application_name = 'skald/cli'");
            return !command.is_running();
        }));
        INFO(command.log());
        CHECK(command.wait().code == 0);
        CHECK(command.log().find("may be gone after a failover") != std::string::npos);
    }
    standby.reset();
    s.payments.start();
    CHECK(s.ends("k", "completed"));
    s.close_in_order();
}

TEST_CASE("a node that is made read-only is written to no more, and the services go on when it is not")
{
    shop s;
    s.open();
    REQUIRE(s.order("before").status == 202);
    REQUIRE(s.ends("before", "completed"));
    auto const pids = std::array{s.orders.pid(), s.payments.pid(), s.shipping.pid()};
    {
        server_setting const fence{"default_transaction_read_only", "on"};
        auto const written = s.orders_db.count("skald.idempotency");
        // Sessions hear of it one by one, each when it next waits for a query.
        REQUIRE(wait_until([&] { return s.order("k" + std::to_string(written)).status == 503; }));
        CHECK(wait_until([&] { return s.orders.has_logged("read-only"); }));
        auto const then = s.orders_db.count("skald.idempotency");
        for (int i = 0; i < 8; ++i) {
            auto const answer = s.order("r" + std::to_string(i));
            CHECK(answer.status == 503);
            CHECK(!answer.value_of("Retry-After").empty());
        }
        CHECK(s.orders_db.count("skald.idempotency") == then);
    }
    for (int i = 0; i < 8; ++i) CHECK(wait_until([&] { return s.order("r" + std::to_string(i)).status == 202; }));
    CHECK(s.all_end(60s));
    CHECK(s.outboxes_empty());
    CHECK(pids == std::array{s.orders.pid(), s.payments.pid(), s.shipping.pid()});
    CHECK(s.parked_in_all() == 0);
    s.close_in_order();
}
