// What operators see of versions, and of what a saga is found by.
#include "console_shop.hpp"

#include <doctest/doctest.h>

using skald::console::application;
using skald::test::console_shop;
using skald::test::says;
using skald::test::visitor;

TEST_CASE("a saga's page has its attributes, each with the way to the sagas that have it too")
{
    console_shop s;
    s.order("1");
    s.at("orders").db.run("SELECT skald.add_attributes('', '1', '{\"customer\": \"<bob>\", \"city\": \"Oslo\"}')");
    application const console{s.given()};
    visitor const bob{console, s.bob};
    auto const page = bob.get("/saga", {{"home", "orders"}, {"key", "1"}});
    CHECK(says(page, ">customer=&lt;bob&gt;</a>"));
    CHECK(says(page, R"(<a href="/?home=orders&amp;where=city%3DOslo">city=Oslo</a>)"));
    CHECK(says(bob.get("/", {{"home", "orders"}, {"where", "customer=<bob>"}}), ">1</code>"));
    s.order("2");
    CHECK_FALSE(says(bob.get("/saga", {{"home", "orders"}, {"key", "2"}}), "attributes"));
}

TEST_CASE("the versions that are under way are counted, and what no saga needs may be removed")
{
    console_shop s;
    s.order("1");
    s.park_charge("2");
    s.park_charge("3");
    s.at("orders").db.run("UPDATE skald.saga SET version = 4 WHERE key = '2';"
                          "INSERT INTO skald.hosted_version VALUES ('place-order', 3)");
    application const console{s.given()};
    visitor const bob{console, s.bob};
    auto const page = bob.get("/versions");
    CHECK(page.status == 200);
    CHECK_FALSE(says(page, "id=\"live\""));  // it counts all, which is not for every two seconds
    auto const newest = page.body.find("data-name=\"version\">4</td>"),
               none = page.body.find("none: what only it needs may be removed"),
               first = page.body.find("data-name=\"version\">1</td>");
    CHECK_MESSAGE(newest < none, page.body);
    CHECK(none < first);
    CHECK(first != std::string::npos);
    CHECK(says(page, "at charge-payment (parked) 1"));
    CHECK(says(page, R"(<span><a href="/?key=2">2</a> <span class="soft">)"));
    CHECK(says(bob.get("/steps"), "href=\"/versions\""));
}
