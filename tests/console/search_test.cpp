// A search that finds little ends soon, says where, and misses nothing when it goes on.
#include "console_shop.hpp"

#include "console/saga_search.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <set>

using skald::test::console_shop;
using skald::test::says;
using skald::test::visitor;
using namespace skald::console;

namespace {

// Twenty sagas, all started and ended at the same two times; three are of another definition.
void many(console_shop& s, std::string const& service, bool have_ended)
{
    s.at(service).db.run(
        std::string{
            "INSERT INTO skald.saga (scope, key, definition, status, data, itinerary, created_at, finished_at) "
            "SELECT 'shop-' || n % 2, 'k-' || n / 2, CASE WHEN n IN (1, 7, 18) THEN 'rare' ELSE 'usual' END, "} +
        (have_ended ? "'completed', '{}', '', '2026-01-01', '2026-01-02' "
                    : "'running', '{}', '', '2026-01-01', NULL ") +
        "FROM generate_series(1, 20) AS n");
}

struct outcome
{
    std::multiset<std::string> found;
    int pages{};
    bool said_where{};
};

outcome search_to_the_end(console_shop& s, saga_filter wanted)
{
    databases const all{s.given()};
    outcome made;
    wanted.examined_max = 4;
    do {
        auto const page = find_sagas(all, wanted, 3);
        for (auto const& row : page.rows) made.found.insert(row.home + ' ' + row.scope + ' ' + row.key);
        made.said_where |= !page.searched_to.empty();
        wanted.after = page.next;
        REQUIRE(++made.pages < 60);
    } while (!wanted.after.empty());
    return made;
}

}  // namespace

TEST_CASE("what few sagas are is found page by page, each once, in two databases")
{
    for (bool const have_ended : {false, true}) {
        console_shop s;
        many(s, "orders", have_ended);
        many(s, "payments", have_ended);
        std::multiset<std::string> const rare{"orders shop-0 k-9",   "orders shop-1 k-0",   "orders shop-1 k-3",
                                              "payments shop-0 k-9", "payments shop-1 k-0", "payments shop-1 k-3"};
        for (auto const& wanted : {saga_filter{.definition = "rare"}, saga_filter{.definition = "rare", .key = "k-"}}) {
            auto const made = search_to_the_end(s, wanted);
            CHECK(made.found == rare);
            CHECK(made.said_where);
            CHECK(made.pages > 5);
        }
    }
}

TEST_CASE("a search for nothing comes to an end, and so does one for everything")
{
    console_shop s;
    many(s, "orders", true);
    CHECK(search_to_the_end(s, {.definition = "none"}).found.empty());
    CHECK(search_to_the_end(s, {.definition = "none", .key = "k-"}).found.empty());
    CHECK(search_to_the_end(s, {.status = "running", .key = "k-"}).found.empty());
    auto const all = search_to_the_end(s, {});
    CHECK(all.found.size() == 20);
    CHECK(std::set<std::string>{all.found.begin(), all.found.end()}.size() == 20);
}

TEST_CASE("sagas with an attribute that many have are found page by page, each once, in two databases")
{
    for (bool const have_ended : {false, true}) {
        console_shop s;
        for (auto const* service : {"orders", "payments"}) {
            many(s, service, have_ended);
            s.at(service).db.run("SELECT skald.add_attributes(scope, key, jsonb_build_object('country', 'no', 'city', "
                                 "CASE definition WHEN 'rare' THEN 'Oslo' ELSE 'Bergen' END)) FROM skald.saga");
        }
        std::multiset<std::string> const rare{"orders shop-0 k-9",   "orders shop-1 k-0",   "orders shop-1 k-3",
                                              "payments shop-0 k-9", "payments shop-1 k-0", "payments shop-1 k-3"};
        std::string const status = have_ended ? "completed" : "running";
        for (auto const& wanted : {saga_filter{.definition = "rare", .where = {{"country", "no"}}},
                                   saga_filter{.status = status, .definition = "rare", .where = {{"country", "no"}}},
                                   saga_filter{.where = {{"country", "no"}, {"city", "Oslo"}}},
                                   saga_filter{.definition = "rare", .key = "k-", .where = {{"country", "no"}}}}) {
            auto const made = search_to_the_end(s, wanted);
            CHECK(made.found == rare);
            CHECK(made.said_where == (wanted.where.size() == 1));  // few sagas are in Oslo
        }
        CHECK(search_to_the_end(s, {.key = "k-9", .where = {{"city", "Oslo"}}}).found ==
              std::multiset<std::string>{"orders shop-0 k-9", "payments shop-0 k-9"});
        CHECK(search_to_the_end(s, {.home = "payments", .where = {{"city", "Oslo"}}}).found.size() == 3);
        CHECK(search_to_the_end(s, {.where = {{"country", "no"}}}).found.size() == 40);
        CHECK(search_to_the_end(s, {.where = {{"country", "se"}}}).found.empty());
    }
}

TEST_CASE("the list, as a page and for programs, has the sagas with all attributes that are asked for")
{
    console_shop s;
    for (auto const* key : {"1", "2", "3"}) s.order(key);
    s.at("orders").db.run("SELECT skald.add_attributes(scope, key, jsonb_build_object('customer', "
                          "CASE key WHEN '3' THEN '<ann>' ELSE 'bob' END, 'city', 'Oslo ' || key)) FROM skald.saga");
    application const console{s.given()};
    visitor const bob{console, s.bob};
    auto const list = bob.get("/", {{"where", "customer=bob"}, {"where", ""}});
    CHECK(says(list, ">1</code>"));
    CHECK(says(list, ">2</code>"));
    CHECK_FALSE(says(list, ">3</code>"));
    CHECK(says(list, "city=Oslo 1"));
    auto const one = bob.get("/sagas.json", {{"where", "customer=bob"}, {"where", "city=Oslo 2"}});
    CHECK(one.content_type == "application/json");
    auto const object = nlohmann::json::parse(one.body);
    REQUIRE(object["sagas"].size() == 1);
    CHECK(object["sagas"][0]["key"] == "2");
    CHECK(object["sagas"][0]["home"] == "orders");
    CHECK(object["sagas"][0]["attributes"] == nlohmann::json{{"city", "Oslo 2"}, {"customer", "bob"}});
    CHECK(object["next"].is_null());
    CHECK(nlohmann::json::parse(bob.get("/sagas.json", {{"status", "stuck"}}).body)["sagas"].empty());
    CHECK(says(bob.get("/", {{"where", "customer=<ann>"}}), "customer=&lt;ann&gt;"));

    for (auto const* wrong : {"costumer=bob", "customer"}) {
        CHECK(bob.get("/", {{"where", wrong}}).status == 400);
        CHECK(bob.get("/sagas.json", {{"where", wrong}}).status == 400);
    }
    CHECK(says(bob.get("/sagas.json", {{"where", "costumer=bob"}}),
               "no saga here has the attribute costumer; there are: city, customer"));
    CHECK(console.answer({"GET", "/sagas.json"}).status == 401);
}

TEST_CASE("a filter that there is not is refused by its name, and does not show all sagas")
{
    console_shop s;
    s.order("1");
    application const console{s.given()};
    visitor const bob{console, s.bob};
    for (auto const* name : {"older_than", "limit", "Status", ""}) {
        auto const page = bob.get("/", {{name, "1h"}});
        CHECK(page.status == 400);
        CHECK(says(page, std::string{"there is no filter “"} + name + "”: there are home, status, "));
        CHECK_FALSE(says(page, ">1</code>"));
        auto const object = bob.get("/sagas.json", {{"status", "running"}, {name, "1h"}});
        CHECK(object.status == 400);
        CHECK(object.content_type == "application/json");
        CHECK(says(object, R"({"error":"there is no filter “)" + std::string{name} + "”"));
    }
    CHECK(bob.get("/sagas.json", {{"home", ""},
                                  {"status", ""},
                                  {"definition", ""},
                                  {"scope", ""},
                                  {"key", ""},
                                  {"reason", ""},
                                  {"older", ""},
                                  {"after", ""},
                                  {"where", ""}})
              .status == 200);
}
