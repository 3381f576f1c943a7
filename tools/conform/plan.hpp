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

/// What comes to a transaction that is held where the line of its step is written, or in its COMMIT, or in the COMMIT
/// of what ends it badly. All processes are killed, and COMMIT fails or succeeds; or its session is ended, or its
/// statement refused, and the processes live on.
enum class trouble {
    kill_in_step,
    kill_lost_commit,
    kill_kept_commit,
    kill_in_end,
    cut_in_step,
    cut_in_commit,
    deadlock,
    lock_timeout
};

constexpr bool is_kill(trouble what)
{
    return what <= trouble::kill_in_end;
}
enum class place { step, commit, end };

constexpr place place_of(trouble what)
{
    if (what == trouble::kill_in_end) return place::end;
    return what == trouble::kill_lost_commit || what == trouble::kill_kept_commit || what == trouble::cut_in_commit
               ? place::commit
               : place::step;
}
constexpr bool is_cut(trouble what)
{
    return what == trouble::cut_in_step || what == trouble::cut_in_commit;
}
constexpr bool is_refusal(trouble what)
{
    return what == trouble::deadlock || what == trouble::lock_timeout;
}

struct planned_trouble
{
    std::string step;
    trouble what{};
};

/// (scope, key)
using saga_name = std::pair<std::string, std::string>;

struct saga
{
    saga_name name;
    std::string what;     // in words
    nlohmann::json data;  // as it starts
    bool is_cancelled{};
    bool comes_backwards{};   // its compensation first
    bool is_dead_lettered{};  // its first message is in the parked queue, and not by the delivery limit
    bool is_sent_changed{};   // afterwards, with another body
    bool is_numbered{};       // its first message has x-attempt, as a number
    std::optional<planned_trouble> trouble{};
    bool is_at_stop{};                // it is under way when all processes get SIGTERM
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
    std::vector<saga> alone;  // first those with a trouble, of these last the cuts; then those that wait
    std::vector<saga>
        at_stop;  // without duplicates too; one for each process, which is held, and what then waits behind it

    template <class Function>
    void for_each(Function const& call) const
    {
        for (auto const* const all : {&duplicated, &alone, &at_stop})
            for (auto const& one : *all) call(one);
    }
    std::size_t size() const { return duplicated.size() + alone.size() + at_stop.size(); }
};

struct plan_size
{
    int sagas{60}, kills{12}, processes{2};
};

/// Of kills in a step or in its COMMIT, no fewer than each step in each place.
inline constexpr int kills_min = 12;

plan make_plan(std::string const& run, std::uint64_t seed, plan_size const& size);

}  // namespace skald::conform
