// The key that Skald makes where the caller gives none: a UUIDv7 (RFC 9562).
#include <doctest/doctest.h>

#include "core/identity.hpp"
#include "core/uuid.hpp"

#include <skald/message.hpp>
#include <skald/start.hpp>

#include <chrono>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>

using namespace skald::core;

namespace {

std::uint64_t milliseconds_in(std::string const& uuid)
{
    return std::stoull(uuid.substr(0, 8) + uuid.substr(9, 4), nullptr, 16);
}

std::uint64_t milliseconds_now()
{
    using namespace std::chrono;
    return static_cast<std::uint64_t>(duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count());
}

}  // namespace

TEST_CASE("a UUID has its form, version 7 and variant 10")
{
    for (int i = 0; i < 1'000; ++i) {
        auto const uuid = make_uuid_v7();
        CAPTURE(uuid);
        REQUIRE(uuid.size() == 36);
        for (std::size_t at = 0; at < uuid.size(); ++at) {
            bool const is_dash = at == 8 || at == 13 || at == 18 || at == 23;
            REQUIRE(is_dash == (uuid[at] == '-'));
            if (!is_dash) REQUIRE(std::string{"0123456789abcdef"}.find(uuid[at]) != std::string::npos);
        }
        REQUIRE(uuid[14] == '7');
        REQUIRE(std::string{"89ab"}.find(uuid[19]) != std::string::npos);
    }
}

TEST_CASE("UUIDs are ordered by the time at which they were made")
{
    auto const before = milliseconds_now();
    auto const one = make_uuid_v7();
    auto const between = milliseconds_now();
    while (milliseconds_now() == between) continue;  // the clock's next millisecond, not a wait for anybody
    auto const other = make_uuid_v7();
    auto const after = milliseconds_now();

    CHECK(milliseconds_in(one) >= before);
    CHECK(milliseconds_in(one) <= between);
    CHECK(milliseconds_in(other) > between);
    CHECK(milliseconds_in(other) <= after);
    CHECK(one < other);
}

TEST_CASE("no two UUIDs are alike")
{
    std::set<std::string> seen;
    for (int i = 0; i < 20'000; ++i) seen.insert(make_uuid_v7());
    CHECK(seen.size() == 20'000);
}

TEST_CASE("version 5 is that of RFC 9562")
{
    // Appendix A.4, and one of Python's uuid module with the namespace of URLs.
    CHECK(make_uuid_v5("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "www.example.com") ==
          "2ed6657d-e927-568b-95e1-2665a8aea6a2");
    CHECK(skald::uuid_v5("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "python.org") ==
          "886313e1-3b8a-5372-9b90-0c9aee199e5d");
    CHECK_THROWS_AS(skald::uuid_v5("dns", "python.org"), std::invalid_argument);
}

TEST_CASE("a key that Skald makes is a key")
{
    CHECK(is_key(skald::make_key()));
    CHECK(skald::make_key() != skald::make_key());
}
