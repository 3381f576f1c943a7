// What a step does not know passes through it: whatever it does to the members that it does know.
#include <doctest/doctest.h>

#include <skald/detail/data.hpp>

#include "support/complaint.hpp"
#include "unit/changed_data.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

using namespace skald;
using namespace skald::detail;
using nlohmann::json;
using test::any_data;
using test::changed;
using test::contains;
using namespace std::string_literals;

namespace {

struct leg
{
    std::string city;
    int nights{};
    bool operator<(leg const& other) const { return city < other.city; }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(leg, city, nights)

struct guest
{
    std::string name;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(guest, name)

struct trip
{
    std::string id;
    std::int64_t cents{};
    guest who;
    std::vector<leg> legs;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(trip, id, cents, who, legs)

template <class Value>
struct holder
{
    Value value{};
    friend void from_json(json const& j, holder& h) { j.at("value").get_to(h.value); }
    friend void to_json(json& j, holder const& h) { j = json{{"value", h.value}}; }
};

std::string trip_changed(std::string const& body, std::function<void(trip&)> const& change)
{
    return changed<trip>(body, change);
}

template <class Value>
std::string value_changed(std::string const& value, std::function<void(Value&)> const& change)
{
    return changed<holder<Value>>(R"({"value":)" + value + "}", [&](holder<Value>& h) { change(h.value); });
}

constexpr auto two_legs =
    R"({"v":7,"id":"t","cents":5,"who":{"name":"Ann","vip":true},"legs":[{"city":"Oslo","nights":1,"bags":9},)"
    R"({"city":"Rome","nights":2,"bags":[1.0]}]})";

std::string legs_changed(std::function<void(std::vector<leg>&)> const& change)
{
    auto const made = json::parse(trip_changed(two_legs, [&](trip& t) { change(t.legs); }));
    CHECK(made["v"] == 7);
    CHECK(made["who"]["vip"] == true);
    return made["legs"].dump();
}

struct card
{
    int number{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(card, number)
struct cash
{
    int given{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(cash, given)

struct paid
{
    std::string tag{"type"};
    std::variant<card, cash> how;
};
void from_json(json const& j, paid& p)
{
    p.tag = j.contains("type") ? "type" : "method";
    if (j.at(p.tag) == "card") p.how = j.get<card>();
    else p.how = j.get<cash>();
}
void to_json(json& j, paid const& p)
{
    std::visit([&](auto const& how) { j = how; }, p.how);
    j[p.tag] = p.how.index() == 0 ? "card" : "cash";
}

struct visit
{
    std::string city;
    std::optional<int> stars;
};
void from_json(json const& j, visit& v)
{
    j.at("city").get_to(v.city);
    if (j.contains("stars")) v.stars = j["stars"].get<int>();
}
void to_json(json& j, visit const& v)
{
    j = json{{"city", v.city}};
    if (v.stars) j["stars"] = *v.stars;
}

// Reads a member under its old name too, and prefers it.
struct renamed
{
    int quantity{};
};
void from_json(json const& j, renamed& r)
{
    r.quantity = j.value("qty", j.value("quantity", 0));
}
void to_json(json& j, renamed const& r)
{
    j = json{{"quantity", r.quantity}};
}

// Knows the elements of one kind, and leaves the others out.
struct hotels
{
    std::vector<std::string> cities;
};
void from_json(json const& j, hotels& h)
{
    for (auto const& stay : j.at("stays"))
        if (stay.at("kind") == "hotel") h.cities.push_back(stay.at("city"));
}
void to_json(json& j, hotels const& h)
{
    auto stays = json::array();
    for (auto const& city : h.cities) stays.push_back({{"kind", "hotel"}, {"city", city}});
    j = json{{"stays", std::move(stays)}};
}

}  // namespace

TEST_CASE("data that a step does not change goes on with the bytes that came")
{
    auto const body =
        R"( {"v" : 1.0, "who":{"name":"\u0041nn"},"cents":1e2, "id":"t", "legs":[ ],"x":0.1000000000000000055} )";
    CHECK(trip_changed(body, [](trip&) {}) == body);
}

TEST_CASE("members that a step does not know stay, beside what it changes, within it and in elements of arrays")
{
    CHECK(trip_changed(two_legs,
                       [](trip& t) {
                           t.cents = 6;
                           t.who.name = "Bob";
                           t.legs[1].nights = 3;
                       }) ==
          R"({"v":7,"id":"t","cents":6,"who":{"name":"Bob","vip":true},"legs":[{"city":"Oslo","nights":1,"bags":9},)"
          R"({"city":"Rome","nights":3,"bags":[1.0]}]})");
}

TEST_CASE("numbers that a step does not change keep the digits that came")
{
    CHECK(
        trip_changed(
            R"({"a":1.0,"b":0.1000000000000000055511,"c":18446744073709551615,"d":-0.0,"e":1E+2,"id":"t","cents":5.0,)"
            R"("who":{"name":"Ann"},"legs":[]})",
            [](trip& t) { t.id = "s"; }) ==
        R"({"a":1.0,"b":0.1000000000000000055511,"c":18446744073709551615,"d":-0.0,"e":1E+2,"id":"s","cents":5.0,)"
        R"("who":{"name":"Ann"},"legs":[]})");
    CHECK(value_changed<std::vector<double>>("[1,2.50,1e2]", [](auto& all) { all[1] = 3; }) ==
          R"({"value":[1,3.0,1e2]})");
}

TEST_CASE("an element of an array keeps what is not known of it where others are inserted, removed and moved")
{
    CHECK(
        legs_changed([](auto& legs) {
            legs.insert(legs.begin(), leg{"Bonn", 1});
        }) ==
        R"([{"city":"Bonn","nights":1},{"bags":9,"city":"Oslo","nights":1},{"bags":[1.0],"city":"Rome","nights":2}])");
    CHECK(legs_changed([](auto& legs) { legs.erase(legs.begin()); }) == R"([{"bags":[1.0],"city":"Rome","nights":2}])");
    CHECK(legs_changed([](auto& legs) { std::swap(legs[0], legs[1]); }) ==
          R"([{"bags":[1.0],"city":"Rome","nights":2},{"bags":9,"city":"Oslo","nights":1}])");
    CHECK(legs_changed([](auto& legs) { legs.clear(); }) == "[]");
}

TEST_CASE("an element that is changed keeps what is not known of it where it also moves, by what tells them apart")
{
    CHECK(legs_changed([](auto& legs) {
              std::swap(legs[0], legs[1]);
              for (auto& one : legs) one.nights += 5;
          }) == R"([{"bags":[1.0],"city":"Rome","nights":7},{"bags":9,"city":"Oslo","nights":6}])");
    CHECK(legs_changed([](auto& legs) {
              legs[1].nights = 8;
              legs.erase(legs.begin());
          }) == R"([{"bags":[1.0],"city":"Rome","nights":8}])");
    CHECK(
        legs_changed([](auto& legs) {
            legs[1].nights = 8;
            legs.insert(legs.begin(), leg{"Bonn", 1});
        }) ==
        R"([{"city":"Bonn","nights":1},{"bags":9,"city":"Oslo","nights":1},{"bags":[1.0],"city":"Rome","nights":8}])");
}

TEST_CASE("an element that is changed in its place keeps what is not known of it, whatever of it has changed")
{
    CHECK(legs_changed([](auto& legs) {
              legs[0] = {"Bonn", 5};
          }) == R"([{"bags":9,"city":"Bonn","nights":5},{"bags":[1.0],"city":"Rome","nights":2}])");
    CHECK(
        legs_changed([](auto& legs) {
            legs[0].city = "Bonn";
            legs.push_back({"Kiel", 1});
        }) ==
        R"([{"bags":9,"city":"Bonn","nights":1},{"bags":[1.0],"city":"Rome","nights":2},{"city":"Kiel","nights":1}])");
    CHECK(value_changed<std::vector<guest>>(R"([{"name":"Ann","vip":1}])", [](auto& all) { all[0].name = "Bob"; }) ==
          R"({"value":[{"name":"Bob","vip":1}]})");
}

TEST_CASE("an element with another id is another element, also in the same place")
{
    using rows = std::vector<std::map<std::string, json>>;
    CHECK(changed<any_data>(R"({"list":[{"id":1,"n":"a","ux":1},{"id":2,"n":"b","ux":2}]})", [](any_data& d) {
              d.known["list"][1] = {{"id", 3}, {"n", "b"}};
          }) == R"({"list":[{"id":1,"n":"a","ux":1},{"id":3,"n":"b"}]})");
    CHECK(value_changed<rows>("[{}]", [](rows& all) { all[0]["id"] = 1; }) == R"({"value":[{"id":1}]})");
    CHECK(changed<any_data>(R"({"list":[{"id":"","n":"a","ux":1}]})", [](any_data& d) {
              d.known["list"][0]["id"] = "given";
          }) == R"({"list":[{"id":"given","n":"a","ux":1}]})");
}

TEST_CASE("a type that sorts its elements, or leaves doubles out, has them paired with those that came")
{
    CHECK(
        value_changed<std::set<leg>>(R"([{"city":"b","nights":1,"u":1},{"city":"a","nights":1,"u":2}])", [](auto& all) {
            auto node = all.extract(all.begin());
            node.value().nights = 4;
            all.insert(std::move(node));
        }) == R"({"value":[{"city":"a","nights":4,"u":2},{"city":"b","nights":1,"u":1}]})");
    CHECK(value_changed<std::set<int>>("[3,1,3]", [](auto& all) { all.erase(3); }) == R"({"value":[1]})");
}

TEST_CASE("elements that a type leaves out altogether stay behind those that they came behind of")
{
    auto const body =
        R"({"stays":[{"kind":"tent"},{"kind":"hotel","city":"a","u":1},{"kind":"boat"},{"kind":"hotel","city":"b"}]})";
    CHECK(
        changed<hotels>(body, [](hotels& h) { h.cities[1] = "c"; }) ==
        R"({"stays":[{"kind":"tent"},{"kind":"hotel","city":"a","u":1},{"kind":"boat"},{"kind":"hotel","city":"c"}]})");
    CHECK(changed<hotels>(body, [](hotels& h) { h.cities.erase(h.cities.begin()); }) ==
          R"({"stays":[{"kind":"tent"},{"kind":"boat"},{"kind":"hotel","city":"b"}]})");
}

TEST_CASE("a name that a step takes out of a map is gone, and one that it puts in is there")
{
    using guests = std::map<std::string, guest>;
    CHECK(value_changed<guests>(
              R"({"a":{"name":"Ann","vip":1},"b":{"name":"Bob","vip":2},"c\"":{"name":"Cy"}})", [](guests& all) {
                  all.erase("b");
                  all["a"].name = "Amy";
                  all["d\""].name = "Di";
              }) == R"({"value":{"a":{"name":"Amy","vip":1},"c\"":{"name":"Cy"},"d\"":{"name":"Di"}}})");
}

TEST_CASE("an optional member that a step sets or clears leaves what is not known beside it")
{
    CHECK(changed<visit>(R"({"city":"a","u":1})", [](visit& v) { v.stars = 5; }) == R"({"city":"a","u":1,"stars":5})");
    CHECK(changed<visit>(R"({"city":"a","stars":5,"u":1})", [](visit& v) {
              v.stars.reset();
              v.city = "b";
          }) == R"({"city":"b","u":1})");
}

TEST_CASE("another alternative of a tagged variant has nothing of the one before, and the same one keeps all")
{
    auto const to_cash = [](paid& p) { p.how = cash{2}; };
    CHECK(value_changed<paid>(R"({"type":"card","number":1,"issuer":"x"})", to_cash) ==
          R"({"value":{"given":2,"type":"cash"}})");
    CHECK(value_changed<paid>(R"({"method":"card","number":1,"issuer":"x"})", to_cash) ==
          R"({"value":{"given":2,"method":"cash"}})");
    CHECK(value_changed<paid>(R"({"type":"card","number":1,"issuer":"x"})", [](paid& p) { p.how = card{3}; }) ==
          R"({"value":{"type":"card","number":3,"issuer":"x"}})");
}

TEST_CASE("a member that hides what a step changed, for its type reads it and never writes it, does not go on")
{
    CHECK(changed<renamed>(R"({"qty":3,"u":1})", [](renamed& r) { r.quantity = 4; }) == R"({"quantity":4})");
    CHECK(changed<renamed>(R"({"quantity":3,"u":1})", [](renamed& r) { r.quantity = 4; }) == R"({"quantity":4,"u":1})");
}

TEST_CASE("a number that is none is refused where a step wrote it, with its place, and left where it came as null")
{
    constexpr auto endless = std::numeric_limits<double>::infinity();
    auto const why = test::complaint_about<data_error>([] {
        value_changed<std::vector<std::map<std::string, double>>>(R"([{"a":1.5}])",
                                                                  [](auto& all) { all[0]["a"] = std::nan(""); });
    });
    CHECK(contains(why, "/value/0/a is NaN"));
    CHECK(contains(test::complaint_about<data_error>([] { write_data(holder<double>{-endless}); }),
                   "/value is infinite"));
}

TEST_CASE("text that can't be written is refused where a step wrote it")
{
    CHECK_THROWS_AS(trip_changed(two_legs, [](trip& t) { t.id = "\xff"; }), data_error);
    CHECK_THROWS_AS(trip_changed(two_legs, [](trip& t) { t.legs.push_back({std::string("a\0", 2), 1}); }), data_error);
}
