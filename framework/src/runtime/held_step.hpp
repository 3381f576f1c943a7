// A started step while a process has it: its lease, as this process knows it, and what its call may ask of its owner.
#pragma once

#include "core/breaker.hpp"
#include "core/log.hpp"
#include "ports/started.hpp"
#include "runtime/started_work.hpp"

#include <skald/call.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <string>

namespace skald::runtime {

/// Threads: any for what call_owner has and for the atomic members; the others are the loop's.
struct held_step final : detail::call_owner
{
    using clock = std::chrono::steady_clock;
    /// Renews the lease of this one, and keeps its checkpoint. Throws ports::fault.
    using renewer = std::function<ports::started_steps::renewal(ports::started_steps::held const&)>;

    /// `asked`: when it was asked for, from when the lease counts.
    held_step(started_step s, std::string dependency, clock::time_point asked, renewer renews);

    void heartbeat(std::optional<nlohmann::json> const& checkpoint) override;
    bool is_stopped() const noexcept override;

    /// By the database's clock.
    bool is_past_deadline(clock::time_point now) const;

    /// `asked`: likewise.
    void take_renewal(ports::started_steps::renewal const& met, clock::time_point asked);

    /// Calls, or looks. Returns what comes next; and how it went, for the breaker.
    started_next go_on(core::call_result& how, core::logger& log, std::mt19937_64& random);

    /// For one that was taken, and neither called nor asked about.
    ports::started_release uncalled() const;

    started_step step;
    std::string const dependency_name;
    clock::time_point const taken_at;
    std::optional<core::breaker::call> breaker_call{};  // until it has ended
    std::atomic<clock::time_point> lease_ends;
    std::atomic<clock::time_point> last_sign;
    std::atomic<clock::time_point> last_asked{};  // by heartbeat(): whether the call is still wanted
    std::atomic<bool> lost{};                     // it is somebody else's
    std::atomic<bool> stops{};                    // its call is asked to end
    std::atomic<bool> is_calling{};               // its call is running
    bool is_silent{};                             // and has been for too long, which was logged

private:
    bool is_lost() const noexcept;
    bool renew(ports::started_steps::held const& kept);
    void throw_if_stopped() const;

    renewer renews_;
};

}  // namespace skald::runtime
