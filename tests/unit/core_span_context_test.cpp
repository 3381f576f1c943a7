// traceparent, as W3C Trace Context says: what is valid, what is not, and what a later version may add.
#include <doctest/doctest.h>

#include "core/span_context.hpp"

#include <string>

using namespace skald::core;
using namespace std::string_literals;

namespace {

// The specification's own example.
auto const example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"s;

}  // namespace

TEST_CASE("the specification's example is read, and written as it was")
{
    auto const read = parse_traceparent(example);
    REQUIRE(read);
    CHECK(read->trace_id_text() == "4bf92f3577b34da6a3ce929d0e0e4736");
    CHECK(read->span_id_text() == "00f067aa0ba902b7");
    CHECK(read->sampled);
    CHECK(read->traceparent() == example);
    auto const unsampled = example.substr(0, 53) + "00";
    CHECK_FALSE(parse_traceparent(unsampled)->sampled);
    CHECK(parse_traceparent(unsampled)->traceparent() == unsampled);
}

TEST_CASE("of the flags only the lowest is known")
{
    CHECK(parse_traceparent(example.substr(0, 53) + "ff")->sampled);
    CHECK_FALSE(parse_traceparent(example.substr(0, 53) + "02")->sampled);
}

TEST_CASE("a later version is read as far as it is like the first")
{
    CHECK(parse_traceparent("cc" + example.substr(2)));
    CHECK(parse_traceparent("cc" + example.substr(2) + "-what-it-adds"));
    CHECK_FALSE(parse_traceparent("cc" + example.substr(2) + ".what-it-adds"));
    CHECK_FALSE(parse_traceparent("ff" + example.substr(2)));
}

TEST_CASE("what is not exactly a traceparent is nothing")
{
    CHECK_FALSE(parse_traceparent(""));
    for (std::size_t length = 0; length < example.size(); ++length)
        CHECK_FALSE(parse_traceparent(example.substr(0, length)));
    CHECK_FALSE(parse_traceparent(example + "-more"));
    CHECK_FALSE(parse_traceparent(example + " "));
    CHECK_FALSE(parse_traceparent(' ' + example));
    for (std::size_t at = 0; at < example.size(); ++at)
        for (char const odd : {'A', 'g', '\0', ' ', '-', '\xc3'}) {
            auto bad = example;
            if (bad[at] == odd) continue;
            bad[at] = odd;
            CAPTURE(bad);
            CHECK_FALSE(parse_traceparent(bad));
        }
}

TEST_CASE("an id of zeros is nobody's")
{
    CHECK_FALSE(parse_traceparent("00-00000000000000000000000000000000-00f067aa0ba902b7-01"));
    CHECK_FALSE(parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"));
}
