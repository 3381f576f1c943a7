// How many file descriptors a process may need.
#include "worker/descriptors.hpp"

#include <doctest/doctest.h>

using namespace skald;
using worker_detail::descriptors_needed;

TEST_CASE("every connection that the settings allow has its descriptor, and more of them need more")
{
    config c;
    c.health_listen = "off";
    auto const without_http = descriptors_needed(c);
    CHECK(without_http > 2 * c.lanes);
    c.lanes += 10;
    CHECK(descriptors_needed(c) == without_http + 20);  // each with a second one, which interrupts it
    c.lanes -= 10;

    c.http_listen = "127.0.0.1:0";
    auto const with_http = descriptors_needed(c);
    CHECK(with_http >= without_http + c.http.connections_max + 2 * c.http_lanes);
    c.http.connections_max += 5'000;
    c.http_lanes += 10;
    CHECK(descriptors_needed(c) == with_http + 5'020);
    c.health_listen = "127.0.0.1:0";
    CHECK(descriptors_needed(c) > with_http + 5'020);
}
