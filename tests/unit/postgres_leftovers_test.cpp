#include "postgres/leftovers.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace skald::postgres;

TEST_CASE("what was there before is not left behind, and what is new, another or reset is")
{
    auto const before = read_session("setting\tlock_timeout\t5000\nsetting\tdatestyle\tISO, MDY\n"
                                     "prepared statement\tclaim\t\nsession authorization\tapp\t");
    CHECK(left_behind(before, before).empty());
    auto const now = read_session("setting\tlock_timeout\t0\nsetting\tsearch_path\t\nprepared statement\tclaim\t\n"
                                  "session authorization\tadmin\t\nadvisory lock\t42\tExclusiveLock");
    CHECK(left_behind(before, now) == std::vector<leftover>{{"advisory lock", "42"},
                                                            {"session authorization", "admin"},
                                                            {"setting", "lock_timeout"},
                                                            {"setting", "search_path"},
                                                            {"setting", "datestyle"}});
    CHECK(left_behind({}, read_session("")).empty());
}

TEST_CASE("a step's first transactions are looked at, and one in a hundred later")
{
    leftover_watch watch;
    int looks = 0;
    for (int n = 0; n < 1000; ++n) looks += watch.wants_look("charge") ? 1 : 0;
    CHECK(looks == 19);
    CHECK(watch.wants_look("ship"));
}

TEST_CASE("what is left is news once for each step and kind, whatever its name")
{
    leftover_watch watch;
    CHECK(watch.is_news("charge", {{"advisory lock", "42"}}));
    CHECK_FALSE(watch.is_news("charge", {{"advisory lock", "43"}, {"advisory lock", "44"}}));
    CHECK(watch.is_news("charge", {{"advisory lock", "43"}, {"setting", "role"}}));
    CHECK(watch.is_news("ship", {{"advisory lock", "42"}}));
}
