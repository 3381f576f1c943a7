// Any document, any part of it known, any edit of that: what is not known is the same.
#include <doctest/doctest.h>

#include "unit/changed_data.hpp"
#include "unit/seeded.hpp"

#include <iterator>
#include <map>
#include <string>

using namespace skald;
using nlohmann::json;
using test::any_data;
using test::changed;
using test::is_unknown;
using test::known_part;
using namespace std::string_literals;

namespace {

// Of each object the members that nobody knows, by the name that it has for itself.
void collect_unknown(json const& value, std::map<std::string, json>& unknown, char const* identity)
{
    if (!value.is_structured()) return;
    if (value.is_object()) {
        auto& here = unknown[value.at(identity)] = json::object();
        for (auto const& [name, inner] : value.items())
            if (is_unknown(name)) here[name] = inner;
    }
    for (auto const& [name, inner] : value.items())
        if (value.is_array() || !is_unknown(name)) collect_unknown(inner, unknown, identity);
}

class documents
{
public:
    documents(std::uint_fast32_t seed, char const* identity) : random_{seed}, identity_{identity} {}

    json any_object(std::size_t levels)
    {
        json made{{identity_, "n" + std::to_string(++count_)}};
        for (auto n = random_.number(0, 4); n > 0; --n) made[name("k")] = value(levels);
        for (auto n = random_.number(0, 3); n > 0; --n) made[name("u")] = unknown(levels);
        return made;
    }

    // One edit, somewhere.
    void edit(json& object)
    {
        auto const which = random_.number(0, object.size() - 1);
        auto const it = std::next(object.begin(), static_cast<std::ptrdiff_t>(which));
        if (it->is_object() && random_.number(0, 4) > 0) return edit(*it);
        if (it->is_array() && random_.number(0, 9) > 0) return edit_array(*it);
        if (it.key() == identity_ || random_.number(0, 3) == 0) object[name("k")] = known_part(value(2));
        else if (random_.coin()) object.erase(it);
        else *it = known_part(value(2));
    }

    test::seeded random_;

private:
    std::string name(std::string const& prefix) { return prefix + random_.text("ab\"\\\n", 0, 3); }

    json scalar()
    {
        switch (random_.number(0, 4)) {
        case 0: return nullptr;
        case 1: return random_.coin();
        case 2: return static_cast<double>(random_.number(0, 1000)) / 8;
        case 3: return random_.text("ab\\\"{}[],: \n", 0, 6);
        default: return random_.number(0, 3);
        }
    }

    json value(std::size_t levels)
    {
        auto const what = random_.number(0, levels == 0 ? 3 : 9);
        if (what < 4) return scalar();
        if (what < 6) return any_object(levels - 1);
        auto made = json::array();
        bool const of_objects = random_.number(0, 4) > 0;
        for (auto n = random_.number(0, 5); n > 0; --n) made.push_back(of_objects ? any_object(levels - 1) : scalar());
        return made;
    }

    json unknown(std::size_t levels)
    {
        if (levels == 0 || random_.coin()) return scalar();
        return random_.coin() ? json::array({scalar(), json{{"any", scalar()}}}) : json{{"k", scalar()}};
    }

    void edit_array(json& list)
    {
        auto const what = random_.number(0, 3);
        if (list.empty() || what == 0) {
            auto const at = static_cast<std::ptrdiff_t>(random_.number(0, list.size()));
            list.insert(list.begin() + at, known_part(any_object(1)));
            return;
        }
        auto const at = random_.number(0, list.size() - 1);
        if (what == 1) return list.erase(at);
        if (what == 2) {
            auto moved = list[at];
            list.erase(at);
            list.insert(list.begin() + static_cast<std::ptrdiff_t>(random_.number(0, list.size())), moved);
            return;
        }
        if (list[at].is_object()) edit(list[at]);
        else list[at] = scalar();
    }

    char const* identity_;
    int count_ = 0;
};

// As many edits at once as that; the texts with spaces between, too.
void check_edits(char const* identity, std::size_t edits_max, int times)
{
    documents any{19, identity};
    int survived = 0;
    for (int i = 0; i < times; ++i) {
        auto const whole = any.any_object(3);
        auto const body = whole.dump(any.random_.coin() ? 2 : -1);
        auto after = known_part(whole);
        for (auto n = any.random_.number(1, edits_max); n > 0; --n) any.edit(after);
        CAPTURE(body);
        CAPTURE(after.dump());
        auto const written = json::parse(changed<any_data>(body, [&](any_data& d) { d.known = after; }));
        CAPTURE(written.dump());
        REQUIRE(detail::is_same(known_part(written), after));
        std::map<std::string, json> were;
        std::map<std::string, json> are;
        collect_unknown(whole, were, identity);
        collect_unknown(written, are, identity);
        for (auto const& [name, unknown] : are)
            if (auto const it = were.find(name); it != were.end()) {
                REQUIRE(detail::is_same(unknown, it->second));
                survived += !unknown.empty();
            }
            else if (identity == "id"s) {
                REQUIRE(unknown.empty());
            }
    }
    CHECK(survived > times);
}

}  // namespace

TEST_CASE("property: whatever a step does to what it knows of any data, what it does not know is the same")
{
    check_edits("id", 6, test::cases(5'000));
}

TEST_CASE("property: the same where no member is called an id, for any one change")
{
    check_edits("nr", 1, test::cases(5'000));
}
