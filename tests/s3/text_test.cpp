// What is read of an address and of S3's answers.
#include "s3/address.hpp"
#include "s3/listing.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

using namespace skald::s3_detail;

TEST_CASE("an address names a server, a bucket and what all names begin with")
{
    auto const whole = parse_address("https://s3.example.com:9000/bucket/shop/bodies");
    CHECK(whole.server == "https://s3.example.com:9000");
    CHECK(whole.bucket == "bucket");
    CHECK(whole.prefix == "shop/bodies/");
    CHECK(parse_address("http://[::1]:9000/b").prefix.empty());
    CHECK(parse_address("https://h/b/").prefix.empty());
    CHECK(parse_address("https://h/b/p/").prefix == "p/");
    for (auto const* wrong :
         {"", "https://", "ftp://h/b", "https://h", "https://h/", "https:///b", "https://u:p@h/b", "https://h/b c",
          "http://h/b", "http://localhost.example.com/b", "http://127.evil.example/b", "https://h/b/p?q",
          "https://h/b//p", "https://h/b/p#f", "https://h/b/%2F"})
        CHECK_THROWS_AS(parse_address(wrong), std::invalid_argument);
}

TEST_CASE("a list of objects is read with times and sizes, and goes on where it says")
{
    auto const read = parse_listing(
        "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\"><IsTruncated>true</IsTruncated><Contents><Key>a/b.1</Key>"
        "<LastModified>2026-11-25T18:11:59.123Z</LastModified><Size>6</Size></Contents><Contents><Key>c&amp;d</Key>"
        "<LastModified>1970-01-01T00:00:07Z</LastModified><Size>67108864</Size></Contents>"
        "<NextContinuationToken>1/x==&amp;</NextContinuationToken></ListBucketResult>");
    REQUIRE(read.objects.size() == 2);
    CHECK(read.objects[0].name == "a/b.1");
    CHECK(read.objects[0].changed.time_since_epoch().count() == 1795630319);
    CHECK(read.objects[1].name == "c&d");
    CHECK(read.objects[1].changed.time_since_epoch().count() == 7);
    CHECK(read.objects[1].size == 67108864);
    CHECK(read.next == "1/x==&");
    CHECK(parse_listing("<ListBucketResult></ListBucketResult>").objects.empty());
}

TEST_CASE("what is no such list is no empty list")
{
    auto const with = [](std::string const& inside) { return "<ListBucketResult>" + inside + "</ListBucketResult>"; };
    for (auto const& wrong :
         {std::string{}, std::string{"<html>"}, with("<IsTruncated>true</IsTruncated>"), with("<Contents><Key>a</Key>"),
          with("<Contents><Key>a</Key><LastModified>now</LastModified><Size>1</Size></Contents>"),
          with("<Contents><Key>a</Key><LastModified>2026-13-25T18:11:59Z</LastModified><Size>1</Size></Contents>"),
          with("<Contents><Key>a</Key><LastModified>2026-11-25T18:11:59Z</LastModified><Size>-1</Size></Contents>")})
        CHECK_THROWS_AS(parse_listing(wrong), std::runtime_error);
}
