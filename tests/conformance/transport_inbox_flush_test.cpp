// Without a broker: a message can be taken before its delivery is durable, and the sender hears of it only afterwards.
// (docs/adr/0058-delivered-before-the-flush.md)
#include "inbox/peer.hpp"
#include "support/database.hpp"
#include "support/server_setting.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>

using namespace std::chrono_literals;

TEST_CASE("a message can be taken before it is durable, and is confirmed only then")
{
    skald::test::database const db;
    db.run("INSERT INTO skald.queue (name) VALUES ('skald.orders')");
    skald::inbox::peer to{{.url = db.url()}, {10ms, 200ms}, 1};
    REQUIRE(to.available());
    skald::core::message sent;
    sent.destination = "skald.orders";
    sent.id = sent.type = "hello";
    std::array const all{const_cast<skald::core::message const*>(&sent)};

    skald::test::absent_standby standby;
    std::atomic<bool> is_confirmed{false};
    std::jthread const sender{[&] {
        CHECK(to.deliver(all, 30s).empty());
        is_confirmed = true;
    }};
    auto const waits = [&] {
        return db.one("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = "
                      "current_database()") == "1";
    };
    CHECK(skald::testing::wait_until(waits));
    CHECK(db.one("SELECT message_id FROM skald.inbox") == "hello");
    CHECK_FALSE(is_confirmed);
    standby.reset();
    CHECK(skald::testing::wait_until([&] { return is_confirmed.load(); }));
}
