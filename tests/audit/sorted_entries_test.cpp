#include "audit/sorted_entries.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>

using skald::audit::entry;
using skald::audit::sorted_entries;

namespace {

std::vector<entry> some_entries(int count)
{
    std::mt19937 random{7};
    std::vector<entry> all;
    for (int i = 0; i < count; ++i)
        all.push_back({"key-" + std::to_string(random() % 1000), {std::to_string(i), std::nullopt, ""}});
    return all;
}

}  // namespace

TEST_CASE("entries come back complete and in the order of their keys, in memory or through files")
{
    auto all = some_entries(2'000);
    for (std::size_t const bytes_max : {std::size_t{1} << 30, std::size_t{20'000}, std::size_t{1}}) {
        if (bytes_max == 1) all.resize(100);  // a file for each
        CAPTURE(bytes_max);
        sorted_entries sorted{bytes_max};
        for (auto const& one : all) sorted.add(one);
        CHECK(sorted.count() == all.size());
        std::vector<entry> back;
        while (auto one = sorted.next()) back.push_back(*one);
        CHECK(std::ranges::is_sorted(back, {}, &entry::key));
        CHECK(std::ranges::is_permutation(back, all));
    }
}

TEST_CASE("keys are ordered by their bytes, as the database orders them")
{
    sorted_entries sorted;
    for (auto const* key : {"\xc3\xa4", "a", "Z", "a:b", "a-b"}) sorted.add({key, {}});
    std::string order;
    while (auto one = sorted.next()) order += one->key + ' ';
    CHECK(order == "Z a a-b a:b \xc3\xa4 ");
}

TEST_CASE("temporary files are in TMPDIR, and an error names that")
{
    std::string const before = std::getenv("TMPDIR") == nullptr ? "" : std::getenv("TMPDIR");
    ::setenv("TMPDIR", "/nowhere/at-all", 1);
    sorted_entries sorted{1};
    std::string why;
    try {
        sorted.add({"a", {}});
    }
    catch (std::runtime_error const& error) {
        why = error.what();
    }
    before.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before.c_str(), 1);
    CAPTURE(why);
    CHECK(why.find("in /nowhere/at-all") != std::string::npos);
}

TEST_CASE("no entries are no entries")
{
    sorted_entries sorted;
    CHECK_FALSE(sorted.next());
    CHECK_FALSE(sorted.next());
}
