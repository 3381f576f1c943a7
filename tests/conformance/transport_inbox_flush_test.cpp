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

namespace {

skald::core::message hello()
{
    skald::core::message m;
    m.destination = "skald.orders";
    m.id = m.type = "hello";
    return m;
}

}  // namespace

TEST_CASE("a message can be taken before it is durable, and is confirmed only then")
{
    skald::test::database const db;
    db.run("INSERT INTO skald.queue (name) VALUES ('skald.orders')");
    skald::inbox::peer to{{.url = db.url(), .prepares_statements = false}, {10ms, 200ms}, 1};
    REQUIRE(to.available());
    auto const sent = hello();
    std::array const all{&sent};

    skald::test::absent_standby standby;
    std::atomic<bool> is_confirmed{false};
    std::jthread const sender{[&] {
        CHECK(to.deliver(all, 30s).empty());
        is_confirmed = true;
    }};
    CHECK(skald::testing::wait_until([&] { return db.one(skald::test::standby_waits) == "1"; }));
    CHECK(db.one("SELECT message_id FROM skald.inbox") == "hello");
    CHECK_FALSE(is_confirmed);
    standby.reset();
    CHECK(skald::testing::wait_until([&] { return is_confirmed.load(); }));
}

TEST_CASE("while the standbys are away a sender has one session that waits for them, however often it sends")
{
    skald::test::database const db;
    db.run("INSERT INTO skald.queue (name) VALUES ('skald.orders')");
    skald::inbox::peer to{{.url = db.url(), .prepares_statements = false}, {10ms, 200ms}, 1};
    auto const sent = hello();
    std::array const all{&sent};
    skald::test::absent_standby const standby;
    for (int i = 0; i < 3; ++i) {
        REQUIRE(skald::testing::wait_until([&] { return to.available(); }));
        CHECK_THROWS_AS(to.deliver(all, 500ms), pqxx::broken_connection);
    }
    REQUIRE(skald::testing::wait_until([&] { return to.available(); }));
    CHECK(skald::testing::wait_until([&] { return db.one(skald::test::standby_waits) == "0"; }));
}
