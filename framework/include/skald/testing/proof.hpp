// The options of prove_exactly_once(), and its result.
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

/// What a saga's steps have done, as the rows of a query in a service's database. The query needs an ORDER BY.
struct effect
{
    std::string service;  // whose database is queried
    std::string sql;      // a query
};

/// What they have done elsewhere: in a stand-in for a mail server, a file, a transport of your own.
struct outside_effect
{
    std::string name;                                // as a reported difference calls it
    std::function<std::vector<std::string>()> read;  // what was done since clear(): the same in every run of a way
    std::function<void()> clear;                     // called before each run: all is as before the saga
    /// What a compensated saga must leave as it was before it: a balance, which a charge and its refund leave alone,
    /// while `read` has both. Empty: all that is read. `{}` returned: nothing, as for mails.
    std::function<std::vector<std::string>()> restored{};
};

/// What a compensated saga may leave behind: the rows of a table, or the values of some of its columns.
struct remaining
{
    std::string service;                 // whose database has it
    std::string table;                   // as SQL names it: "customer_order", "shop.customer_order"
    std::vector<std::string> columns{};  // empty: all of it; else what may differ in its rows: "updated_at"
};

/// What a wait_step of the saga waits for.
struct given_signal
{
    std::string step;  // its name
    std::string json;  // the body
};

/// What is compared, and how many schedules are run.
struct proof_options
{
    /// For every build: each place is disturbed in the first way that passes it, and not again in each other way, and
    /// pairs are not sampled. A third of the schedules or fewer.
    bool quick{};

    /// What must be the same. Empty: every row of every table of yours in every service. Give queries if rows hold
    /// values that may differ from run to run: a time, a random id.
    std::vector<effect> effects{};

    /// A saga that ends as compensated must leave every table of yours as it was before it, except for these: an order
    /// may remain as a cancelled one. Throws std::invalid_argument if there is no such table or column.
    std::vector<remaining> remains{};

    /// Upcasts must carry every member of older data over, except for these, which they leave out on purpose: JSON
    /// pointers such as "/nickname".
    std::vector<std::string> dropped{};

    /// Given to each step of that name once it waits. There is a way without it, too.
    std::vector<given_signal> signals{};

    /// Whether the other systems that steps call may be unable to tell what a call has done, so that a schedule may end
    /// as `unknown`. Nothing more is asked of one that does.
    bool may_end_unknown{};

    /// For the sampled part, which has two disturbances in one run. The rest is exhaustive, and needs no seed.
    std::uint64_t seed{1};
    std::size_t sampled{100};  // how many pairs

    /// How often a message is delivered where a schedule says `n times`.
    int copies{5};

    /// A step that always faults is tried this often in the proof, or less often if its own policy says so; one that
    /// makes calls two times more often, since a crash may use up an attempt.
    int attempts_max{2};

    /// Told about once a second how many schedules have run, and of how many. Empty: a line on stderr every ten
    /// seconds.
    std::function<void(std::size_t run, std::size_t of)> progress{};

    /// Runs this schedule alone; empty: the environment's SKALD_TESTING_ONLY, and if that is empty too, all of them.
    std::string only{};
};

/// The counts of one kind of schedule.
struct schedule_count
{
    std::size_t run{};      // how many ran
    std::size_t not_met{};  // ran, but what was to be disturbed did not occur
};

/// Whether every schedule ended in the same final state as the undisturbed one; and if not, which did not, and why.
class [[nodiscard]] proof
{
public:
    bool passed() const { return failure_.empty(); }     // every one of them
    explicit operator bool() const { return passed(); }  // for assertions

    /// How many schedules were run.
    std::size_t schedules() const;
    std::map<std::string, schedule_count> const& by_kind() const { return by_kind_; }  // the same for each kind
    std::chrono::milliseconds time() const { return time_; }                           // that all of it took

    // Empty if it passed:
    std::string const& failed_schedule() const { return failed_schedule_; }  // the shortest one that shows it
    std::string const& difference() const { return difference_; }            // row by row
    std::string const& cause() const { return cause_; }                      // the likely one

    /// All of it as text, with how to run that schedule alone.
    std::string report() const;

    /// Prints report().
    friend std::ostream& operator<<(std::ostream& out, proof const& p) { return out << p.report(); }

private:
    friend class prover;

    std::map<std::string, schedule_count> by_kind_;
    std::chrono::milliseconds time_{};
    std::string failure_;  // as one line
    std::string failed_schedule_;
    std::string difference_;
    std::string cause_;
};

}  // namespace skald::testing
