#include "runtime/held_step.hpp"

#include "core/failpoint.hpp"
#include "ports/fault.hpp"

#include <skald/detail/data.hpp>
#include <skald/errors.hpp>

#include <fmt/format.h>

#include <thread>
#include <utility>

namespace skald::runtime {

using namespace std::chrono_literals;

namespace {

// In a tight loop, heartbeat() asks as often as this.
constexpr auto ask_every = 1s;

constexpr std::size_t checkpoint_bytes_max = 1024 * 1024;

// What PostgreSQL takes. All leases of a process are renewed in one statement, which one bad checkpoint must not fail.
std::string text_of(nlohmann::json checkpoint)
try {
    auto text = detail::write_checked(checkpoint);
    if (text.size() > checkpoint_bytes_max)
        throw data_error{
            fmt::format("a checkpoint of {} bytes is more than {}: keep what is large elsewhere, and where "
                        "it is in the checkpoint",
                        text.size(), checkpoint_bytes_max)};
    return text;
}
catch (nlohmann::json::exception const& error) {
    throw data_error{std::string{"a checkpoint that can't be written: "} + error.what()};
}

}  // namespace

held_step::held_step(started_step s, std::string dependency, clock::time_point asked, renewer renews)
    : step{std::move(s)}, dependency_name{std::move(dependency)}, taken_at{asked},
      lease_ends{taken_at + step.row.lease}, last_sign{taken_at}, renews_{std::move(renews)}
{}

void held_step::heartbeat(std::optional<nlohmann::json> const& checkpoint)
{
    auto const text = checkpoint ? text_of(*checkpoint) : std::string{};
    auto const now = clock::now();
    if (is_past_deadline(now)) stops = true;
    throw_if_stopped();
    last_sign = now;
    if (!checkpoint && now - last_asked.load() < ask_every) return;
    last_asked = now;
    ports::started_steps::held const kept{step.row.id, text};
    while (!renew(kept) && checkpoint) {
        throw_if_stopped();
        std::this_thread::sleep_for(100ms);  // the database is away, or the row is locked; the lease may outlast that
    }
    throw_if_stopped();
    SKALD_FAILPOINT_IF(checkpoint, "call.heartbeat");
}

// Whether it is written, or is not to be written any more.
bool held_step::renew(ports::started_steps::held const& kept)
try {
    auto const asked = clock::now();
    auto const met = renews_(kept);
    take_renewal(met, asked);
    return met.is_extended || !met.is_ours;
}
catch (ports::fault const&) {
    return false;
}

bool held_step::is_stopped() const noexcept
{
    return stops || is_lost();
}

bool held_step::is_lost() const noexcept
{
    return lost || clock::now() >= lease_ends.load();
}

void held_step::throw_if_stopped() const
{
    if (is_lost()) throw call_stopped{"somebody else may have this call now: its lease has ended"};
    if (stops) throw call_stopped{"its saga was cancelled or paused, is past its deadline, or this process stops"};
}

bool held_step::is_past_deadline(clock::time_point now) const
{
    auto const deadline = step.envelope().deadline();
    return deadline && step.row.at + (now - taken_at) >= *deadline;
}

void held_step::take_renewal(ports::started_steps::renewal const& met, clock::time_point asked)
{
    if (!met.is_ours) lost = true;
    else if (met.is_extended) lease_ends = asked + step.row.lease;
    if (ends_call(step, met.command)) stops = true;
}

started_next held_step::go_on(core::call_result& how, core::logger& log, std::mt19937_64& random)
{
    // As when the process was stopped since it took it.
    if (is_lost()) return uncalled();
    last_sign = clock::now();
    is_calling = true;
    if (step.row.was_in_doubt) {
        SKALD_FAILPOINT("call.looking");
        auto const met = run_look(step, *this);
        SKALD_FAILPOINT("call.looked");
        if (met.what != detail::look_result::answer::unknown) how = core::call_result::ok;
        return after_look(step, met, random);
    }
    SKALD_FAILPOINT("call.calling");
    auto const began = clock::now();
    auto const met = run_call(step, *this);
    SKALD_FAILPOINT("call.called");
    step.hosted().counts->of(step.delivery.step()->is_forward()).call.observe(clock::now() - began);
    if (met.what == call_outcome::end::happened) {
        how = core::call_result::ok;
    }
    else {
        if (!is_stopped()) how = core::call_result::failed;
        log.warning("call.failed",
                    {{"key", step.delivery.step()->key().text()},
                     {"attempt", step.row.calls},
                     {"did_not_happen", met.what == call_outcome::end::did_not_happen ? "yes" : "unknown"},
                     {"error", met.text}});
    }
    return after_call(step, met, stops, random);
}

ports::started_release held_step::uncalled() const
{
    return runtime::uncalled(step.row, 0ms);
}

}  // namespace skald::runtime
