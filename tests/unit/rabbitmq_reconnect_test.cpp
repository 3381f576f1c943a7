// When a lost connection is tried again, and what ends a call that hangs.
#include <doctest/doctest.h>

#include "rabbitmq/reconnect_schedule.hpp"
#include "sockets/socket_breaker.hpp"

#include <algorithm>
#include <array>

#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;
using skald::rabbitmq::reconnect_schedule;
using skald::sockets::socket_breaker;
using skald::sockets::watchdog;

struct socket_pair
{
    std::array<int, 2> ends{};
    socket_pair() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0); }
    ~socket_pair()
    {
        ::close(ends[0]);
        ::close(ends[1]);
    }
    /// Waits until the socket was shut down; hangs if it never is.
    bool is_shut_down() const
    {
        char byte{};
        return ::recv(ends[0], &byte, 1, 0) == 0;
    }
    bool is_open() const
    {
        char byte{};
        return ::recv(ends[0], &byte, 1, MSG_DONTWAIT) == -1;
    }
};

/// The longest wait in many draws after this many failures in a row.
std::chrono::milliseconds longest_wait(int failures)
{
    reconnect_schedule::time_point const now{1h};
    auto longest = 0ms;
    for (std::uint64_t seed = 1; seed < 300; ++seed) {
        reconnect_schedule schedule{{100ms, 15s}, seed};
        for (int i = 0; i < failures; ++i) schedule.failed(now);
        longest = std::max(longest, std::chrono::duration_cast<std::chrono::milliseconds>(schedule.next() - now));
    }
    return longest;
}

}  // namespace

TEST_CASE("the first attempt is due at once")
{
    CHECK(reconnect_schedule{{100ms, 15s}, 1}.due(reconnect_schedule::time_point{1h}));
}

TEST_CASE("the longest wait doubles with each failure, up to a limit")
{
    CHECK(longest_wait(1) <= 100ms);
    CHECK(longest_wait(1) > 80ms);
    CHECK(longest_wait(4) <= 800ms);
    CHECK(longest_wait(4) > 700ms);
    CHECK(longest_wait(30) <= 15s);
    CHECK(longest_wait(30) > 14s);
}

TEST_CASE("an attempt is not due before its wait is over")
{
    reconnect_schedule::time_point const now{1h};
    reconnect_schedule schedule{{100ms, 15s}, 7};
    schedule.failed(now);
    REQUIRE(schedule.next() > now);
    CHECK_FALSE(schedule.due(now));
    CHECK(schedule.due(schedule.next()));
}

TEST_CASE("only a connection that lasted a minute forgets earlier failures")
{
    reconnect_schedule::time_point const now{1h};
    auto const longest_after = [&](std::chrono::seconds lasted) {
        auto longest = 0ms;
        for (std::uint64_t seed = 1; seed < 300; ++seed) {
            reconnect_schedule schedule{{100ms, 15s}, seed};
            for (int i = 0; i < 10; ++i) schedule.failed(now);
            schedule.connected(now);
            schedule.failed(now + lasted);
            auto const wait = schedule.next() - now - lasted;
            longest = std::max(longest, std::chrono::duration_cast<std::chrono::milliseconds>(wait));
        }
        return longest;
    };
    CHECK(longest_after(59s) > 10s);
    CHECK(longest_after(60s) <= 100ms);
}

TEST_CASE("a breaker ends a call that hangs on the socket")
{
    socket_pair sockets;
    socket_breaker breaker;
    breaker.hold(sockets.ends[0]);
    breaker.break_now();
    CHECK(sockets.is_shut_down());
}

TEST_CASE("a breaker that has released a socket does not touch it")
{
    socket_pair sockets;
    socket_breaker breaker;
    breaker.hold(sockets.ends[0]);
    breaker.release();
    breaker.break_now();
    CHECK(sockets.is_open());
}

TEST_CASE("a breaker that broke for good breaks what it is given later")
{
    socket_pair sockets;
    socket_breaker breaker;
    breaker.break_for_good();
    breaker.hold(sockets.ends[0]);
    CHECK(sockets.is_shut_down());
}

TEST_CASE("a watchdog breaks the socket when its deadline passes")
{
    socket_pair sockets;
    socket_breaker breaker;
    breaker.hold(sockets.ends[0]);
    watchdog dog{breaker};
    dog.watch(watchdog::clock::now() + 20ms);
    CHECK(sockets.is_shut_down());
}

TEST_CASE("a watchdog whose work was done in time breaks nothing")
{
    socket_pair sockets;
    socket_pair other;
    socket_breaker breaker;
    breaker.hold(sockets.ends[0]);
    watchdog dog{breaker};
    dog.watch(watchdog::clock::now() + 50ms);
    dog.done();

    // Another dog with a later deadline tells that the first one's has passed.
    socket_breaker later_breaker;
    later_breaker.hold(other.ends[0]);
    watchdog later{later_breaker};
    later.watch(watchdog::clock::now() + 150ms);
    CHECK(other.is_shut_down());
    CHECK(sockets.is_open());
}
