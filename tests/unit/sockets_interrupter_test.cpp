// What ends a call that hangs on a socket.
#include <doctest/doctest.h>

#include "sockets/socket_interrupter.hpp"
#include "support/socket_pair.hpp"

#include <unistd.h>

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

TEST_CASE("a socket that gets no second descriptor is refused: nothing could end a wait for it")
{
    socket_pair sockets;
    int const closed = ::dup(sockets.ends[0]);
    REQUIRE(::close(closed) == 0);
    socket_interrupter interrupter;
    CHECK_THROWS_AS(interrupter.hold(closed), std::system_error);
    interrupter.hold(sockets.ends[0]);
    interrupter.break_now();
    CHECK(sockets.is_shut_down());
}
