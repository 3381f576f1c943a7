// Fingerprints: SHA-256 as published, over the bytes as they are.
#include <doctest/doctest.h>

#include "core/fingerprint.hpp"
#include "core/text.hpp"

#include <string>

using namespace skald::core;
using namespace std::string_literals;

namespace {

std::string hex_of(std::string_view bytes)
{
    return to_hex(fingerprint_of(bytes));
}

}  // namespace

TEST_CASE("a fingerprint is the SHA-256 of FIPS 180-4")
{
    CHECK(hex_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(hex_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(hex_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(hex_of(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("bytes behind a NUL count")
{
    CHECK(fingerprint_of("a\0b"s) != fingerprint_of("a\0c"s));
    CHECK(fingerprint_of("a\0"s) != fingerprint_of("a"));
}

// Traps G16: JSON that means the same but was sent otherwise is another body.
TEST_CASE("the same JSON written in another way has another fingerprint")
{
    CHECK(fingerprint_of(R"({"a":1,"b":2})") != fingerprint_of(R"({"b":2,"a":1})"));
    CHECK(fingerprint_of(R"({"a":1})") != fingerprint_of(R"({"a": 1})"));
}

TEST_CASE("no two lists of parts read alike")
{
    CHECK(fingerprint_of_parts({"a", "b"}) != fingerprint_of_parts({"ab"}));
    CHECK(fingerprint_of_parts({"a", "b"}) != fingerprint_of_parts({"ab", ""}));
    CHECK(fingerprint_of_parts({"", "ab"}) != fingerprint_of_parts({"ab", ""}));
    CHECK(fingerprint_of_parts({"a", "b"}) != fingerprint_of_parts({"b", "a"}));
    CHECK(fingerprint_of_parts({}) != fingerprint_of_parts({""}));
    CHECK(fingerprint_of_parts({"1:a"}) != fingerprint_of_parts({"", "a"}));
    CHECK(fingerprint_of_parts({"a1:b"}) != fingerprint_of_parts({"a", "b"}));
    CHECK(fingerprint_of_parts({"POST", "/orders", "", "{}"}) == fingerprint_of_parts({"POST", "/orders", "", "{}"}));
}

TEST_CASE("the fingerprint of parts is that of each part behind its length")
{
    CHECK(fingerprint_of_parts({"a", "", "bcd"}) == fingerprint_of("1:a0:3:bcd"));
}
