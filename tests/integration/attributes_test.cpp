// Attributes: written with the saga's start, found in pages, gone with the saga.
#include "admin/saga_list.hpp"
#include "support/front_door.hpp"

#include <skald/skald.hpp>

#include <doctest/doctest.h>

#include <set>

using namespace skald;
using test::database;
using test::front_door;
using test::post;

namespace {

struct basket
{
    std::string customer;
    std::int64_t cents{};
    std::optional<std::string> coupon{};
};

void to_json(nlohmann::json& j, basket const& b)
{
    j = {{"customer", b.customer}, {"cents", b.cents}};
}

void from_json(nlohmann::json const& j, basket& b)
{
    j.at("customer").get_to(b.customer);
    j.at("cents").get_to(b.cents);
}

constexpr compensatable<basket> reserve{"reserve", "orders"};
constexpr auto buy = define("buy", reserve)
                         .attribute<&basket::customer>("customer")
                         .attribute<&basket::cents>("cents")
                         .attribute<&basket::coupon>("coupon");

class reserving final : public compensatable_step<basket>
{
    outcome execute(step_context&, basket& b) const override
    {
        b.customer = "changed by the step";
        return done();
    }
    void compensate(step_context&, basket&) const override {}
};

constexpr auto all_attributes = "SELECT key, name, value FROM skald.attribute ORDER BY key, name";

void start(database const& db, std::string const& key, basket const& b)
{
    pqxx::connection c{db.url()};
    pqxx::work tx{c};
    skald::start(tx, buy, b, {.key = key});
    tx.commit();
}

nlohmann::json list(database const& db, admin::saga_filter filter)
{
    postgres::connection c{{.url = db.url()}};
    return admin::list_sagas(c, filter);
}

std::string keys(nlohmann::json const& page)
{
    std::string text;
    for (auto const& saga : page["sagas"]) text += (text.empty() ? "" : " ") + saga["key"].get<std::string>();
    return text;
}

// Sagas without messages: `where` says what each has, `n` counts them.
void many(database const& db, int count, std::string const& status, std::string const& where)
{
    bool const has_ended = status == "'completed'";
    db.run("INSERT INTO skald.saga (scope, key, definition, status, data, itinerary, created_at, finished_at) "
           "SELECT '', 'k' || CASE WHEN n < 1000 THEN to_char(n, 'FM000') ELSE n::text END, 'buy', (" +
           status + ")::skald.saga_status, '{}', '', timestamptz '2026-01-01' + n / 3 * interval '1 second', " +
           (has_ended ? "now()" : "NULL") + " FROM generate_series(1, " + std::to_string(count) +
           ") AS n; SELECT skald.add_attributes(s.scope, s.key, " + where +
           ") FROM (SELECT *, substring(key FROM 2)::int AS n FROM skald.saga) AS s");
}

}  // namespace

TEST_CASE("attributes are there if and only if the transaction that starts the saga commits")
{
    database const db;
    pqxx::connection c{db.url()};
    {
        pqxx::work tx{c};
        skald::start(tx, buy, basket{"bob", 7}, {.key = "k"});
    }
    CHECK(db.rows(all_attributes).empty());
    start(db, "k", {"bob", 7, "spring"});
    CHECK(db.rows(all_attributes) == "k|cents|7\nk|coupon|spring\nk|customer|bob");
    CHECK(db.one("SELECT count(*) FROM skald.attribute a JOIN skald.saga s USING (scope, key, created_at)") == "3");
    start(db, "k", {"bob", 7, "spring"});  // the same again
    CHECK(db.one("SELECT count(*) FROM skald.attribute") == "3");
}

TEST_CASE("a saga that HTTP starts has its attributes, as its data was before its first step")
{
    front_door door;
    door.answer(post("sent"), [](http::request_context& ctx) {
        ctx.start(buy, basket{"bob", 7});
        return http::response{202, "", {}, ""};
    });
    door.answer(post("ran"), [](http::request_context& ctx) {
        CHECK(ctx.start(buy, reserving{}, basket{"ann", 8}).is_done());
        return http::response{202, "", {}, ""};
    });
    CHECK(door.db.rows(all_attributes) == "ran|cents|8\nran|customer|ann\nsent|cents|7\nsent|customer|bob");
}

TEST_CASE("an attribute that is too long starts nothing")
{
    database const db;
    CHECK_THROWS_WITH_AS(start(db, "k", {std::string(257, 'x'), 7}),
                         doctest::Contains("the attribute customer has 257"), data_error);
    CHECK(db.one("SELECT count(*) FROM skald.saga") == "0");
}

TEST_CASE("a definition without attributes writes none")
{
    database const db;
    pqxx::connection c{db.url()};
    pqxx::work tx{c};
    skald::start(tx, define("sell", reserve), basket{"bob", 7}, {.key = "k"});
    tx.commit();
    CHECK(db.rows(all_attributes).empty());
}

TEST_CASE("sagas are found by their attributes, by all that are given, the latest first")
{
    database const db;
    start(db, "a", {"bob", 7});
    start(db, "b", {"ann", 7});
    start(db, "c", {"bob", 9});
    CHECK(keys(list(db, {.where = {{"customer", "bob"}}})) == "c a");
    CHECK(keys(list(db, {.where = {{"customer", "bob"}, {"cents", "7"}}})) == "a");
    CHECK(keys(list(db, {.where = {{"customer", "bob"}, {"cents", "8"}}})).empty());
    CHECK(keys(list(db, {.where = {{"customer", "BOB"}}})).empty());
    CHECK(keys(list(db, {.status = "stuck", .where = {{"customer", "bob"}}})).empty());
    CHECK(keys(list(db, {.status = "running", .where = {{"customer", "bob"}}})) == "c a");
    CHECK(keys(list(db, {.definition = "sell", .where = {{"customer", "bob"}}})).empty());
    CHECK(keys(list(db, {.scope = "acme", .where = {{"customer", "bob"}}})).empty());
    CHECK(keys(list(db, {.older_than = std::chrono::hours{1}, .where = {{"customer", "bob"}}})).empty());
    CHECK(list(db, {.where = {{"customer", "ann"}}})["sagas"][0]["attributes"] ==
          nlohmann::json{{"cents", "7"}, {"customer", "ann"}});
}

TEST_CASE("an attribute that no saga has is an error that says which there are")
{
    database const db;
    CHECK_THROWS_WITH_AS(list(db, {.where = {{"city", "Oslo"}}}),
                         doctest::Contains("no saga here has the attribute city, or any other"), std::invalid_argument);
    start(db, "a", {"bob", 7});
    CHECK_THROWS_WITH_AS(list(db, {.where = {{"customer", "bob"}, {"city", "Oslo"}}}),
                         "no saga here has the attribute city; there are: cents, customer", std::invalid_argument);
}

TEST_CASE("pages that follow each other show each saga once, also of those that were started at one time")
{
    for (std::string const status : {"'completed'", "'running'"}) {
        database const db;
        many(db, 40, status, "jsonb_build_object('customer', CASE WHEN n % 4 = 0 THEN 'ann' ELSE 'bob' END)");
        std::multiset<std::string> seen;
        std::string last = "2027";
        int pages = 0;
        admin::saga_filter filter{.where = {{"customer", "bob"}}, .limit = 7};
        do {
            auto const page = list(db, filter);
            for (auto const& saga : page["sagas"]) {
                seen.insert(saga["key"].get<std::string>());
                CHECK(saga["created_at"].get<std::string>() <= last);
                last = saga["created_at"];
            }
            filter.after.reset();
            if (!page["next"].is_null()) filter.after = page["next"].get<std::string>();
            ++pages;
        } while (filter.after);
        CHECK(seen.size() == 30);
        CHECK(std::set<std::string>{seen.begin(), seen.end()}.size() == 30);
        CHECK(pages == 5);
    }
}

TEST_CASE("a rare status among very many sagas with the attribute is found by the status")
{
    database const db;
    many(db, 60, "CASE WHEN n = 3 THEN 'stuck' ELSE 'running' END", "jsonb_build_object('country', 'no')");
    postgres::connection c{{.url = db.url()}};
    admin::attribute_conditions const where{{"country", "no"}};
    admin::saga_search wanted{.where = where, .status = "stuck", .is_under_way = true};
    wanted.examined_max = 10;
    wanted.rows_max = 5;
    auto const found = c.run(admin::attribute_query(c, wanted));
    REQUIRE(found.size() == 1);
    CHECK(std::string{found[0]["key"].c_str()} == "k003");
    // Looked for among those with the attribute, it would not be among the ten that were started last.
    wanted.is_under_way = false;
    auto const looked = c.run(admin::attribute_query(c, wanted));
    REQUIRE(looked.size() == 1);
    CHECK(looked[0]["is_last"].as<bool>());
    CHECK_FALSE(looked[0]["matches"].as<bool>());
}

TEST_CASE(
    "the plain list shows each saga once: those that are stuck, those under way, and those that ended, latest first")
{
    database const db;
    many(db, 12, "CASE n % 4 WHEN 0 THEN 'stuck' WHEN 1 THEN 'running' WHEN 2 THEN 'unknown' ELSE 'compensating' END",
         "'{}'");
    db.run(
        "UPDATE skald.saga SET status = 'completed', finished_at = created_at WHERE key IN ('k003', 'k007', 'k011')");
    admin::saga_filter wanted{.limit = 2};
    std::string text;
    for (int pages = 0; pages < 6; ++pages) {
        auto const page = list(db, wanted);
        text += keys(page) + (page["next"].is_null() ? "" : " ");
        CHECK(page["sagas"].size() <= 2);
        if (page["next"].is_null()) break;
        wanted.after = page["next"];
    }
    CHECK(text == "k004 k008 k012 k001 k002 k005 k006 k009 k010 k011 k007 k003");
    CHECK(keys(list(db, {.status = "unknown"})) == "k002 k006 k010");
    CHECK(keys(list(db, {.status = "stuck", .definition = "sell"})).empty());
    CHECK(keys(list(db, {.status = "completed", .limit = 1})) == "k011");
}

TEST_CASE("a plain list that few sagas match stops, says how far it came, and goes on from there")
{
    database const db;
    many(db, 20'010, "'running'", "'{}'");
    db.run("UPDATE skald.saga SET definition = 'sell' WHERE key IN ('k001', 'k20010')");
    admin::saga_filter wanted{.definition = "sell"};
    auto const first = list(db, wanted);
    CHECK(keys(first) == "k001");
    CHECK_FALSE(first["searched_to"].is_null());
    wanted.after = first["next"];
    auto const second = list(db, wanted);
    CHECK(keys(second) == "k20010");
    CHECK(second["next"].is_null());
}

TEST_CASE("attributes can be added to sagas that were started without, and those that are there stay")
{
    database const db;
    start(db, "a", {"bob", 7});
    db.run("SELECT skald.add_attributes(scope, key, '{\"customer\": \"ann\", \"city\": \"Oslo\", \"none\": null, "
           "\"empty\": \"\"}') FROM skald.saga");
    CHECK(db.rows(all_attributes) == "a|cents|7\na|city|Oslo\na|customer|bob");
    CHECK_THROWS(db.run("SELECT skald.add_attributes('', 'a', '{\"City\": \"Oslo\"}')"));
    CHECK_THROWS(db.run("SELECT skald.add_attributes('', 'a', jsonb_build_object('long', repeat('x', 257)))"));
    db.run("SELECT skald.add_attributes('', 'nobody', '{\"city\": \"Oslo\"}')");
    CHECK(db.one("SELECT count(*) FROM skald.attribute WHERE name = 'city'") == "1");
}

TEST_CASE("attributes go with the saga when its retention is over")
{
    database const db;
    start(db, "old", {"bob", 7});
    start(db, "young", {"bob", 7});
    db.run("UPDATE skald.saga SET status = 'completed', finished_at = now() - interval '40 days' WHERE key = 'old';"
           "DELETE FROM skald.outbox");
    for (int i = 0; i < 2; ++i) db.run("SELECT skald.purge(interval '30 days', 100)");
    CHECK(db.rows("SELECT key FROM skald.saga") == "young");
    CHECK(db.rows(all_attributes) == "young|cents|7\nyoung|customer|bob");
}
