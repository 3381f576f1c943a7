// The duplicator's agenda: how often, when, the same for the same seed, and never more in memory than it may hold.
#include <doctest/doctest.h>

#include "duplicator/agenda.hpp"

#include <memory>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;
using skald::tools::delay_rule;
using skald::tools::now_and_later;

struct parcel
{
    std::string name;
    std::size_t size{1};
    std::size_t bytes() const { return size; }
};
using parcel_ptr = std::shared_ptr<parcel const>;
using agenda = skald::tools::agenda<parcel_ptr>;

constexpr agenda::clock::time_point start{1h};
constexpr std::size_t plenty = 1'000'000;

parcel_ptr make(std::string name, std::size_t size = 1)
{
    return std::make_shared<parcel const>(parcel{std::move(name), size});
}

std::string due_at(agenda& from, agenda::clock::time_point now)
{
    std::string names;
    while (auto const taken = from.take_due(now)) names += (*taken)->name + ' ';
    return names;
}

/// Each copy after as many seconds as its number.
std::optional<std::chrono::milliseconds> by_number(int copy, std::mt19937_64&)
{
    return std::chrono::seconds{copy};
}

std::optional<std::chrono::milliseconds> never(int, std::mt19937_64&)
{
    return std::nullopt;
}

/// When each of 100 copies of one message is due.
std::vector<agenda::clock::duration> moments(std::uint64_t seed)
{
    agenda a{100, now_and_later(30s), seed, plenty};
    a.add(make("m"), start);
    std::vector<agenda::clock::duration> all;
    for (; !a.empty(); a.take_due(a.next())) all.push_back(a.next() - start);
    return all;
}

}  // namespace

TEST_CASE("a message is due as often as it is to be sent, and each time when its delay is over")
{
    agenda a{3, by_number, 1, plenty};
    CHECK(a.next() == agenda::clock::time_point::max());
    a.add(make("a"), start);
    a.add(make("b"), start + 500ms);
    CHECK(a.next() == start);
    CHECK(due_at(a, start - 1ms).empty());
    CHECK(due_at(a, start) == "a ");
    CHECK(due_at(a, start + 1s) == "b a ");
    CHECK(due_at(a, start + 1h) == "b a b ");
    CHECK(a.empty());
}

TEST_CASE("the first copy is sent at once and the others within the bound, at moments that the seed draws")
{
    auto const all = moments(7);
    REQUIRE(all.size() == 100);
    CHECK(all.front() == 0s);
    CHECK(all.back() <= 30s);
    CHECK_MESSAGE(all.back() > 15s, "99 moments of half a minute");
    CHECK(all[1] < all[98]);
    CHECK(moments(7) == all);
    CHECK(moments(8) != all);
}

TEST_CASE("what is drawn for a message does not depend on how much memory others take")
{
    agenda roomy{2, now_and_later(30s), 7, plenty};
    agenda narrow{2, now_and_later(30s), 7, 3};
    for (auto* a : {&roomy, &narrow}) {
        a->add(make("a", 2), start);
        due_at(*a, start + 1h);
        a->add(make("b", 1), start);
        a->take_due(start);
    }
    CHECK(roomy.next() == narrow.next());
    CHECK(roomy.next() > start);
}

TEST_CASE("what can't be held is due at once, and beyond twice the bound nothing more should be taken in")
{
    agenda a{1, never, 1, 100};
    a.add(make("a", 60), start);
    a.add(make("b", 40), start);
    CHECK(due_at(a, start).empty());
    a.add(make("c", 1), start);
    CHECK(due_at(a, start) == "c ");
    CHECK(!a.is_full());
    a.add(make("d", 100), start);
    CHECK(!a.is_full());
    a.add(make("e", 1), start);
    CHECK(a.is_full());
    CHECK(due_at(a, start) == "d e ");
    CHECK(!a.is_full());
}

TEST_CASE("in a hurry everything is due, in its order, and so is what comes later")
{
    agenda a{1, [](int, std::mt19937_64&) { return std::optional{5'000ms}; }, 1, plenty};
    a.add(make("b"), start + 1s);
    a.add(make("a"), start);
    a.hurry(start + 2s);
    a.add(make("c"), start + 2s);
    CHECK(due_at(a, start + 2s) == "a b c ");

    agenda held{1, never, 1, plenty};
    held.add(make("d"), start);
    CHECK(due_at(held, start + 1'000h).empty());
    held.hurry(start);
    CHECK(due_at(held, start) == "d ");
}

TEST_CASE("what is put back is due when it is said, also in a hurry")
{
    agenda a{1, by_number, 1, 10};
    auto const m = make("m", 10);
    a.add(m, start);
    a.hurry(start);
    auto const taken = a.take_due(start);
    REQUIRE(taken);
    a.put_back(*taken, start + 1s);
    CHECK(due_at(a, start + 999ms).empty());
    CHECK(a.next() == start + 1s);
    CHECK(due_at(a, start + 1s) == "m ");
    CHECK_MESSAGE(!a.is_full(), "its bytes are counted once");
}
