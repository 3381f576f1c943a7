// What a page costs has an end, whatever is in the databases.
#include "console_shop.hpp"

#include <doctest/doctest.h>

using skald::console::application;
using skald::test::console_shop;
using skald::test::says;
using skald::test::visitor;

TEST_CASE("a body that nests without end is shown as it is")
{
    console_shop s;
    s.park_charge("deep");
    s.at("payments").db.run("UPDATE skald.parked SET body = convert_to(repeat('[', 30000) || repeat(']', 30000), 'UTF8')");
    application const console{s.given()};
    visitor const bob{console, s.bob};
    auto const one = bob.get("/parked/one", {{"service", "payments"}, {"id", s.parked_id()}});
    CHECK(says(one, std::string(30'000, '[') + ']'));
    auto const saga = bob.get("/saga", {{"key", "deep"}});
    CHECK(saga.status == 200);
    CHECK_FALSE(says(saga, "[[["));
}
