// The points that a run passes, and where faults strike: every port boundary reports itself here (crash_point.hpp).
#pragma once

#include <skald/testing/crash_point.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace skald::testing::inner {

/// The service has died. Not a std::exception: no handler on the way may mistake it for a fault.
struct crashed
{};

/// A delivery reaches a point, for the nth time in this run.
struct visit
{
    std::string delivery;
    crash_point point{};
    int nth{1};

    bool operator==(visit const&) const = default;
};

/// Threads: one. Shared by all services, since only one of them is active at a time.
class fault_plan
{
public:
    /// Names the delivery that is processed or sent from now on. `name`: message_view::name.
    void enter(std::string delivery) { delivery_ = std::move(delivery); }

    /// Throws crashed if a crash is planned here.
    void reach(crash_point point);

    /// Whether the connection is to be lost here: for the two crash points of that kind.
    bool loses(crash_point point);

    /// A service that died does nothing more.
    bool is_dead() const { return dead_; }
    void raise() { dead_ = false; }

    /// Plans one fault, which strikes once. An empty delivery means any delivery; an nth of 0 means any visit.
    void plan(visit strike) { planned_.push_back(std::move(strike)); }
    std::vector<visit> const& planned() const { return planned_; }

    /// All visits so far.
    std::vector<visit> const& visits() const { return visits_; }

    /// Called once, after the next successful claim.
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
