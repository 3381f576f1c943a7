// A search that finds little ends soon, says where, and misses nothing when it goes on.
#include "console_shop.hpp"

#include "console/saga_search.hpp"

#include <doctest/doctest.h>

#include <set>

using skald::test::console_shop;
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
