#include <doctest/doctest.h>

#include "core/base64.hpp"
#include "seeded.hpp"

using skald::core::from_base64;
using skald::core::to_base64;

TEST_CASE("base64 is written as in RFC 4648, section 10")
{
    CHECK(to_base64("") == "");
    CHECK(to_base64("f") == "Zg==");
    CHECK(to_base64("fo") == "Zm8=");
    CHECK(to_base64("foo") == "Zm9v");
    CHECK(to_base64("foob") == "Zm9vYg==");
    CHECK(to_base64("fooba") == "Zm9vYmE=");
    CHECK(to_base64("foobar") == "Zm9vYmFy");
    CHECK(to_base64(std::string_view{"\xfb\xff\0", 3}) == "+/8A");
}

TEST_CASE("any bytes come back from base64 as they were")
{
    skald::test::seeded random{7};
    for (int i = 0; i < 1'000; ++i) {
        auto const bytes = random.bytes(0, 100);
        auto const text = to_base64(bytes);
        CHECK_MESSAGE(from_base64(text) == bytes, "of the case ", i, ": ", text);
    }
}

TEST_CASE("what is not base64, or is base64 in another way than it is written, is refused")
{
    for (auto const* text : {"Z", "Zg", "Zg=", "Zm9vY", "Zm9v====", "====", "=", "Z===", "Zg==Zg==", "Zm=v", "=m9v",
                             "Zm9 ", "Zm9\n", "Zm-v", "Zm_v", "Zm9v\n", "Zh==", "Zm9="})
        CHECK_MESSAGE(!from_base64(text), text);
    CHECK_MESSAGE(!from_base64(std::string_view{"Zm\0v", 4}), "NUL");
    CHECK(from_base64("") == "");
}
