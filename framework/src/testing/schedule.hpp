// What is run in a proof: the way that a saga takes, and what disturbs it there. Each has a name,
// and is found by it again.
#pragma once

#include "testing/fault_plan.hpp"
#include "testing/observed_step.hpp"

#include <skald/definition.hpp>
#include <skald/testing/crash_point.hpp>

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace skald::testing::inner {

/// How a saga goes by itself.
struct way
{
    std::string name;  // "forward", "reject charge-payment", "fail create-order once", "cancel before arrange-shipping"
    std::string rejects{};
    std::string fails{};
    int faults{};
    std::string cancelled_before{};
    std::string like{};                         // the way whose effects it must have, if there is one
    std::vector<std::string> final_statuses{};  // of the saga, of which it must have one

    void apply(script& rules) const
    {
        if (!rejects.empty()) rules.rejections[rejects] = "the proof says no";
        if (!fails.empty()) rules.faults[fails] = faults;
    }
};

/// All that a plan has: forward, a no at each step that may say it, a fault at each step once and for ever, a cancel.
std::vector<way> ways_of(std::span<planned_step const> plan);

/// How a message may come besides once and in its turn.
enum class manner { twice, several_times, twice_at_once, late, after_neighbour };

struct disturbance
{
    std::string delivery;
    std::variant<manner, crash_point> what;
    int nth{1};  // of a crash: the nth time that the delivery is at that point

    /// "deliver charge-payment twice", "crash after COMMIT and before the ack at create-order"
    std::string name(int copies) const;

    /// The same without its delivery, to be counted by.
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

/// A delivery in a run: whether another waited behind it.
struct delivered
{
    std::string name;
    bool had_neighbour{};
};

/// Every single disturbance that a run of a way has a place for.
std::vector<disturbance> disturbances_of(std::vector<delivered> const& deliveries, std::vector<visit> const& visits);

}  // namespace skald::testing::inner
