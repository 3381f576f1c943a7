// What ends a call that hangs on a socket.
#include <doctest/doctest.h>

#include "sockets/socket_interrupter.hpp"
#include "support/socket_pair.hpp"

#include <sys/resource.h>

#include <system_error>

namespace {

using skald::sockets::socket_interrupter;
using skald::test::socket_pair;

}  // namespace

TEST_CASE("a interrupter ends a call that hangs on the socket")
{
    socket_pair sockets;
    socket_interrupter interrupter;
    interrupter.hold(sockets.ends[0]);
    interrupter.break_now();
    CHECK(sockets.is_shut_down());
}

TEST_CASE("a interrupter that has released a socket does not touch it")
{
    socket_pair sockets;
    socket_interrupter interrupter;
    interrupter.hold(sockets.ends[0]);
    interrupter.release();
    interrupter.break_now();
    CHECK(sockets.is_open());
}

TEST_CASE("a interrupter that broke for good breaks what it is given later")
{
    socket_pair sockets;
    socket_interrupter interrupter;
    interrupter.break_for_good();
    interrupter.hold(sockets.ends[0]);
    CHECK(sockets.is_shut_down());
}

TEST_CASE("a interrupter whose socket was closed by its owner spares the next one with that number")
{
    socket_pair sockets;
    socket_interrupter interrupter;
    interrupter.hold(sockets.ends[0]);
    socket_pair other;
    REQUIRE(::dup2(other.ends[0], sockets.ends[0]) == sockets.ends[0]);  // closes, and takes the number
    interrupter.break_now();
    CHECK(sockets.is_open());
}

TEST_CASE("a socket that there is no second descriptor for is refused: nothing could end a wait for it")
{
    socket_pair sockets;
    socket_interrupter interrupter;
    rlimit was{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &was) == 0);
    auto none_left = was;
    none_left.rlim_cur = 3;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none_left) == 0);
    CHECK_THROWS_AS(interrupter.hold(sockets.ends[0]), std::system_error);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &was) == 0);
    interrupter.hold(sockets.ends[0]);
    interrupter.break_now();
    CHECK(sockets.is_shut_down());
}
