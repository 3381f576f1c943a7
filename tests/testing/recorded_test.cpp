// From production to a test: what `skald parked export` prints is what the kit delivers again.
#include "shop.hpp"

#include <skald/errors.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

using namespace kit_test;

namespace {

std::string output_of(std::string const& command)
{
    auto* const pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) throw std::runtime_error{"can't run " + command};
    std::string text;
    for (std::array<char, 4096> part{}; auto const size = std::fread(part.data(), 1, part.size(), pipe);)
        text.append(part.data(), size);
    if (::pclose(pipe) != 0) throw std::runtime_error{command + " failed"};
    return text;
}

}  // namespace

TEST_CASE("a delivery that production parked is exported by one command, and delivered again in a test")
{
    auto const shop = make_shop();
    auto const key = shop->start(place_order, pen(), {.key = "k"});
    shop->fail("confirm-order");
    shop->run_to_the_end();
    REQUIRE(shop->saga_is(key, "stuck"));
    auto const recording =
        output_of("env -i DATABASE_URL='" + shop->database_url("orders") + "' " + SKALD_TOOL + " parked export --all");
    CHECK(recording.find("attempts_exhausted") != std::string::npos);

    // As it failed in production, before anything else of that saga is there; then once, whatever comes after it.
    shop->rewind();
    CHECK(shop->start(place_order, pen(), {.key = "k"}) == key);
    shop->fail("confirm-order", 1);
    CHECK(shop->replay_recorded(recording) == 1);
    CHECK(shop->deliver_next());
    CHECK(shop->deliver_next());
    CHECK(shop->ran("confirm-order", 1));
    shop->run_to_the_end();
    CHECK(shop->saga_is(key, "completed"));
    CHECK(shop->applied_once(key, "confirm-order"));
}

TEST_CASE("what is no recording, or for a service that is not there, is refused with what to do")
{
    auto const shop = make_shop();
    CHECK_THROWS_AS(shop->replay_recorded(""), skald::data_error);
    CHECK_THROWS_AS(shop->replay_recorded("nonsense"), skald::data_error);

    shop->start(place_order, pen(), {.key = "k"});
    shop->fail("confirm-order");
    shop->run_to_the_end();
    auto recording =
        output_of("env -i DATABASE_URL='" + shop->database_url("orders") + "' " + SKALD_TOOL + " parked export --all");
    auto const at = recording.find("\"destination\"");
    REQUIRE(at != std::string::npos);
    recording.replace(recording.find("orders", at), 6, "others");
    CHECK_THROWS_WITH_AS(shop->replay_recorded(recording),
                         doctest::Contains("is for the service others, which hosts nothing here"),
                         std::invalid_argument);
}
