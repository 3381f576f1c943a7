// What waiting is made of: the preference, the times of the polls, and the requests in flight.
#include "entry/known_requests.hpp"
#include "http/poll_schedule.hpp"
#include "http/prefer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace skald;
using namespace skald::http;
using namespace std::chrono_literals;

namespace {

std::optional<std::chrono::seconds> preferring(std::vector<std::string> const& values)
{
    request message;
    message.headers.emplace_back("Host", "shop");
    for (auto const& value : values) message.headers.emplace_back("pReFeR", value);
    return wait_preference(message);
}

}  // namespace

TEST_CASE("Prefer: wait is found among others, however it is written")
{
    for (auto const* value :
         {"wait=10", "WAIT=10", "wait = 10", " wait=\"10\"", "respond-async, wait=10", "wait=10;x=1, wait=20",
          "foo=\"a, wait=99\", wait=10", "foo; wait=99, wait=10", "foo=\"\\\", wait=99\", wait=10", ",,wait=010"}) {
        CAPTURE(value);
        CHECK(preferring({value}) == 10s);
    }
    CHECK(preferring({"respond-async", "wait=10", "wait=20"}) == 10s);
    CHECK(preferring({"wait=0"}) == 0s);
    CHECK(preferring({"wait=999999999999999999999999999"}) == 86400s);
}

TEST_CASE("a preference to wait that isn't understood is none")
{
    CHECK_FALSE(preferring({}));
    for (auto const* value : {"", "wait", "wait=", "wait=-1", "wait=1.5", "wait=10s", "wait=\"", "wait=\"10",
                              "await=10", "wait10", "foo=\"wait=10", "wait=x, wait=10", "wait=1 0"}) {
        CAPTURE(value);
        CHECK_FALSE(preferring({value}));
    }
}

TEST_CASE("looks come soon at first, then every two seconds, the last at the end and none after it")
{
    poll_schedule::clock::time_point const begin{};
    poll_schedule looks{begin, 30s};
    auto now = begin;
    std::vector<std::chrono::milliseconds> pauses;
    while (auto const pause = looks.next(now)) {
        pauses.push_back(*pause);
        now += *pause;
    }
    CHECK(pauses.size() <= 20);
    CHECK(pauses.front() == 50ms);
    CHECK(pauses[1] == 100ms);
    CHECK(*std::max_element(pauses.begin(), pauses.end()) == 2000ms);
    CHECK(now == begin + 30s);
    CHECK_FALSE(looks.next(now + 1s));
}

TEST_CASE("a request runs as long as its mark lives, and is known by scope, key and fingerprint")
{
    entry_detail::in_flight_requests running;
    CHECK_FALSE(running.find({"a", "k"}, "one"));
    {
        auto const mark = running.enter({"a", "k"}, "one");
        auto moved = running.enter({"a", "other"}, "two");
        CHECK(running.find({"a", "k"}, "one") == true);
        CHECK(running.find({"a", "k"}, "two") == false);
        CHECK_FALSE(running.find({"b", "k"}, "one"));
        moved = running.enter({"a", "third"}, "three");
        CHECK_FALSE(running.find({"a", "other"}, "two"));
        CHECK(running.find({"a", "third"}, "three") == true);
        // One in doubt and the one that ran after it: whoever is either of them is no other request.
        auto const again = running.enter({"a", "k"}, "two");
        CHECK(running.find({"a", "k"}, "one") == true);
        CHECK(running.find({"a", "k"}, "two") == true);
        CHECK(running.find({"a", "k"}, "three") == false);
    }
    CHECK_FALSE(running.find({"a", "k"}, "one"));
    CHECK_FALSE(running.find({"a", "third"}, "three"));
}
