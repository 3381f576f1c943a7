// Connections from one address, and what counts as one address.
#include <doctest/doctest.h>

#include "http/peer_count.hpp"

#include <string>
#include <vector>

using skald::http::peer_count;

namespace {

boost::asio::ip::address at(std::string const& text)
{
    return boost::asio::ip::make_address(text);
}

}  // namespace

TEST_CASE("an address has as many places as it may have, and gets one back when a connection ends")
{
    peer_count peers{2};
    auto one = peers.take(at("192.0.2.1"));
    auto const two = peers.take(at("192.0.2.1"));
    CHECK(one);
    CHECK(two);
    CHECK_FALSE(peers.take(at("192.0.2.1")));
    CHECK_FALSE(peers.take(at("192.0.2.1")));  // a refusal takes nothing
    CHECK_MESSAGE(peers.take(at("192.0.2.2")), "another address has its own");
    one.reset();
    CHECK(peers.take(at("192.0.2.1")));
}

TEST_CASE("an address without connections is forgotten")
{
    peer_count peers{1};
    {
        std::vector<peer_count::place> places;
        for (auto const* peer : {"192.0.2.1", "192.0.2.2", "2001:db8::1"}) places.push_back(*peers.take(at(peer)));
        CHECK(peers.addresses() == 3);
        auto moved = std::move(places.front());
        places.erase(places.begin());
        CHECK(peers.addresses() == 3);
    }
    CHECK(peers.addresses() == 0);
}

TEST_CASE("a limit of 0 is none, and keeps no account")
{
    peer_count peers{0};
    std::vector<peer_count::place> places;
    for (int i = 0; i < 100; ++i) places.push_back(*peers.take(at("192.0.2.1")));
    CHECK(peers.addresses() == 0);
}

TEST_CASE("a client of IPv6 is its /64, and IPv4 is the same in either clothes")
{
    CHECK(peer_count::network_of(at("2001:db8:1:2:3:4:5:6")) == peer_count::network_of(at("2001:db8:1:2::1")));
    CHECK(peer_count::network_of(at("2001:db8:1:2::1")) != peer_count::network_of(at("2001:db8:1:3::1")));
    CHECK(peer_count::network_of(at("::ffff:192.0.2.1")) == at("192.0.2.1"));
    CHECK(peer_count::network_of(at("192.0.2.1")) != at("192.0.2.2"));
}
