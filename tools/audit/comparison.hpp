// Two sides compared, key by key: what is missing on either, what differs, and what nobody knows yet.
#pragma once

#include "audit/finding.hpp"
#include "audit/ours.hpp"
#include "audit/period.hpp"
#include "audit/sorted_entries.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace skald::audit {

/// All that both sides have under one key.
struct met
{
    std::string key;
    std::size_t there{};              // how often the other side has it, the grace period around the period included
    std::size_t within{};             // how often we have it within the period
    std::size_t here{};               // how often we have it, twice the grace period around it included
    std::vector<entry> theirs, ours;  // the first few that differ from each other
    std::optional<record> known;      // what the guard says of it, if it was asked
    std::vector<record> others;       // of other scopes, which share the key and are less urgent
};

struct comparison_rules
{
    std::string service;
    bool has_rows{};  // a query says what we have; otherwise the guard's records do
    std::string step;
    bool by_saga{};
    std::vector<std::string> compare;
    std::vector<bool> is_number;  // of these: compared as decimals, and not as text
};

/// Pure.
void judge(met const& one, comparison_rules const& rules, findings& found);

struct compared
{
    std::size_t theirs{}, ours{};  // of ours: within the period
};

/// `theirs` is what the other side has over the period and the grace period around it. Throws what pqxx throws, and
/// configuration_error for a query that can't be run.
compared compare(postgres::connection& c, sorted_entries& theirs, ours_options const& options, period const& over,
                 std::string const& service, findings& found);

}  // namespace skald::audit
