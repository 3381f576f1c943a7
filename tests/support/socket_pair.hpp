// Two ends of one connection inside the process.
#pragma once

#include <doctest/doctest.h>

#include <array>

#include <sys/socket.h>
#include <unistd.h>

namespace skald::test {

struct socket_pair
{
    std::array<int, 2> ends{};

    socket_pair() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0); }
    ~socket_pair()
    {
        for (auto const end : ends) ::close(end);
    }
    socket_pair(socket_pair const&) = delete;
    socket_pair& operator=(socket_pair const&) = delete;

    /// Waits until the socket is shut down; hangs if it never is.
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

}  // namespace skald::test
