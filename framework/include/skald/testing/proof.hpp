// What prove_exactly_once() is told, and what it answers.
#pragma once

#include <skald/testing/check.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace skald::testing {

/// What a saga's steps have done, as the rows of a query in a service's database. Give it an ORDER BY.
struct effect
{
    std::string service;  // in whose database
    std::string sql;      // a query
};

/// What they have done elsewhere: a mail server's stand-in, a file, a transport of your own.
struct outside_effect
{
    std::string name;                                // as it is called where it differs
    std::function<std::vector<std::string>()> read;  // what was done since clear()
    std::function<void()> clear;                     // before each run
};

/// A table that a saga which was compensated must leave as it was before: the same rows, with the same values.
struct restored_table
{
    std::string service;                // in whose database
    std::string table;                  // as SQL names it: "wallet", "shop.wallet"
    std::vector<std::string> except{};  // columns that may differ: "updated_at"
};

/// What is compared, and how much is tried.
struct proof_options
{
    /// What must be the same. Empty: every row of every table of yours in every service. Name queries where rows hold
    /// what differs from run to run and may: a time, a random id.
    std::vector<effect> effects{};

    /// What every saga that ends as compensated must have restored. Empty: that is not asked, for to compensate is not
    /// always to put back: an order may stay as a cancelled one. Throws std::invalid_argument where there is no such
    /// table or column.
    std::vector<restored_table> restored{};

    /// For the sampled part, which is two disturbances in one run. The rest is complete, and needs no seed.
    std::uint64_t seed{1};
    std::size_t sampled{100};  // how many pairs

    /// How often a message comes where it comes `n times`.
    int copies{5};

    /// A step that faults for ever is tried this often in the proof, or less where its own policy says so.
    int attempts_max{2};

    /// Runs this schedule alone; empty: the environment's SKALD_TESTING_ONLY, and where that is empty too, all of them.
    std::string only{};
};

/// Of one kind of schedule.
struct schedule_count
{
    std::size_t run{};      // how many
    std::size_t not_met{};  // ran, but what was to be disturbed did not come to pass
};

/// Whether every schedule left what the undisturbed one leaves; and if not, which did not, and why.
class [[nodiscard]] proof
{
public:
    bool passed() const { return failure_.empty(); }     // every one of them
    explicit operator bool() const { return passed(); }  // what an assertion asks

    /// How many schedules were run.
    std::size_t schedules() const;
    std::map<std::string, schedule_count> const& by_kind() const { return by_kind_; }  // the same for each kind
    std::chrono::milliseconds time() const { return time_; }                           // that all of it took

    // Empty where it passed:
    std::string const& failed_schedule() const { return failed_schedule_; }  // the shortest one that shows it
    std::string const& difference() const { return difference_; }            // row by row
    std::string const& cause() const { return cause_; }                      // what the kit takes for it

    /// All of it as text, with how to run that schedule alone.
    std::string report() const;

    /// Prints report().
    friend std::ostream& operator<<(std::ostream& out, proof const& p) { return out << p.report(); }

private:
    friend class prover;

    std::map<std::string, schedule_count> by_kind_;
    std::chrono::milliseconds time_{};
    std::string failure_;  // in a line
    std::string failed_schedule_;
    std::string difference_;
    std::string cause_;
};

}  // namespace skald::testing
