// What a proof runs: the way that a saga takes, and what disturbs it there. Each has a name, by which it is found.
#pragma once

#include "ports/started.hpp"
#include "testing/fault_plan.hpp"
#include "testing/observed_step.hpp"

#include <skald/definition.hpp>
#include <skald/testing/crash_point.hpp>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace skald::testing::inner {

/// The course of an undisturbed saga.
struct way
{
    std::string name;  // "forward", "reject charge-payment", "fail create-order once", "cancel before arrange-shipping"
    std::string rejects{};
    std::string fails{};                        // whose code throws, after it has run
    std::string refuses{};                      // whose call does not reach the other system
    int faults{};                               // how often one of those two
    std::string cancelled_before{};             // a delivery
    std::string cancelled_while{};              // this step is started
    std::string not_signalled{};                // it gets no signal
    std::string like{};                         // the way whose effects it must have, if any
    std::vector<std::string> final_statuses{};  // the saga must end in one of these

    bool is_cancelled() const { return !cancelled_before.empty() || !cancelled_while.empty(); }

    void apply(script& rules) const
    {
        if (!rejects.empty()) rules.rejections[rejects] = "the proof says no";
        if (!fails.empty()) rules.faults[fails] = faults;
        if (!refuses.empty()) rules.refusals[refuses] = faults;
    }
};

/// What the step does between two transactions, if it has two.
using nature = std::function<std::optional<ports::started_kind>(std::string_view step, bool is_forward)>;

/// The ways of a plan: forward, a rejection at each step that may reject, faults at each step (once, indefinitely),
/// calls that end badly, signals that do not come, cancels.
std::vector<way> ways_of(std::span<planned_step const> plan, nature const& nature_of);

/// How a message may arrive other than once and in order.
enum class manner { twice, several_times, twice_at_once, late, after_neighbour };

struct disturbance
{
    std::string delivery;
    std::variant<manner, crash_point> what;
    int nth{1};  // for a crash: the nth time that the delivery reaches this point

    /// "deliver charge-payment twice", "crash after COMMIT and before the ack at create-order"
    std::string name(int copies) const;

    /// The same without its delivery, as a category to count by.
    std::string kind(int copies) const;

    bool operator==(disturbance const&) const = default;
};

struct schedule
{
    way along;
    std::vector<disturbance> disturbances;

    /// "reject arrange-shipping; deliver charge-payment twice"
    std::string name(int copies) const;
};

/// A delivery in a run, and whether another one waited after it.
struct delivered
{
    std::string name;
    bool had_neighbour{};
};

/// Every single disturbance that can occur in a run of a way.
std::vector<disturbance> disturbances_of(std::vector<delivered> const& deliveries, std::vector<visit> const& visits);

}  // namespace skald::testing::inner
