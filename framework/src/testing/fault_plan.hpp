// What a run passes through, and where it is struck: every boundary of the ports says so here (crash_point.hpp).
#pragma once

#include <skald/testing/crash_point.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace skald::testing::inner {

/// The service is dead. No std::exception: nothing on the way may take it for a fault.
struct crashed
{};

/// A point at which a delivery was, for the nth time in this run.
struct visit
{
    std::string delivery;
    crash_point point{};
    int nth{1};

    bool operator==(visit const&) const = default;
};

/// Threads: one. One for all the services, since only one of them does something at a time.
class fault_plan
{
public:
    /// What is settled or sent from now on. `name`: message_view::name.
    void enter(std::string delivery) { delivery_ = std::move(delivery); }

    /// Throws crashed where that is planned.
    void reach(crash_point point);

    /// Whether the connection is to be lost here: for the two of that kind.
    bool loses(crash_point point);

    /// A service that died has nothing left to say.
    bool is_dead() const { return dead_; }
    void raise() { dead_ = false; }

    /// Strikes once. A delivery that is empty means any; so does an nth of 0.
    void plan(visit strike) { planned_.push_back(std::move(strike)); }
    std::vector<visit> const& planned() const { return planned_; }

    /// Everything that was passed.
    std::vector<visit> const& visits() const { return visits_; }

    /// Called once, behind the next claim that holds.
    void at_next_claim(std::function<void()> what) { at_claim_ = std::move(what); }
    void claimed();

private:
    bool visit_is_planned(crash_point point);

    std::string delivery_;
    std::vector<visit> visits_;
    std::vector<visit> planned_;
    std::function<void()> at_claim_;
    bool dead_{};
};

/// A name without its `#number`.
std::string without_number(std::string const& delivery);

}  // namespace skald::testing::inner
