// The sagas of a run, what their messages are, and how each must end: all decided by the seed.
#pragma once

#include "core/message.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace skald::conform {

inline constexpr char const* home = "conform";
inline constexpr char const* events = "conform.events";

/// Where all processes are killed: while the line of the step is written, or in COMMIT, which then fails or succeeds.
enum class kill_at { step, lost_commit, kept_commit };

struct planned_kill
{
    std::string step;
    kill_at where{};
};

/// (scope, key)
using saga_name = std::pair<std::string, std::string>;

struct saga
{
    saga_name name;
    std::string what;     // in words
    nlohmann::json data;  // as it starts
    bool is_cancelled{};
    bool comes_backwards{};  // its compensation first
    bool is_sent_changed{};  // afterwards, with another body
    std::optional<planned_kill> kill{};
    std::string ends;                 // completed, compensated, stuck
    std::set<std::string> effects{};  // steps of which the ledger must have one line

    bool waits() const { return !data["waits_at"].get_ref<std::string const&>().empty(); }
    /// What must come out.
    nlohmann::json data_at_the_end() const;
    /// `step@` such as `charge.compensate`, for the service.
    core::message message(std::string const& service, std::string const& step) const;
    core::message cancel(std::string const& service, std::string const& id, std::string const& at) const;
    std::string line(std::string const& step) const { return name.first + '|' + name.second + '|' + step; }
};

/// The sagas that are sent while everything is duplicated, and those without duplicates. Keys begin with `run`.
struct plan
{
    std::vector<saga> duplicated;
    std::vector<saga> alone;  // first those that are killed
};

plan make_plan(std::string const& run, std::uint64_t seed, int sagas, int kills);

}  // namespace skald::conform
