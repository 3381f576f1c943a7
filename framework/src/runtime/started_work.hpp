// What to do with a started step that was taken: call, ask what became of a call, record its end, or give it back.
// Decides; the loop (runtime/started_loop.hpp) and the test kit do it. The rules are in docs/external-steps.md.
#pragma once

#include "ports/started.hpp"
#include "runtime/registry.hpp"
#include "runtime/task.hpp"

#include <skald/detail/external_work.hpp>

#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <variant>

namespace skald::runtime {

/// A started step, as this process has it.
struct started_step
{
    ports::started_steps::taken row;
    task delivery;  // that began it
    detail::external_work const* work{};

    registered_step const& hosted() const { return *delivery.step()->hosted; }
    core::envelope const& envelope() const { return delivery.step()->envelope; }
};

/// To give it back as it was when it was taken.
ports::started_release uncalled(ports::started_steps::taken const& row, std::chrono::milliseconds again_in);

/// Nothing if this service has no such step: another process of it may.
std::optional<started_step> recognize(ports::started_steps::taken row, std::string_view service, registry const& steps);

struct make_call
{};
struct take_look
{};

/// What comes next. An end is for the executor: started_step::delivery with that second transaction.
using started_next = std::variant<make_call, take_look, second_transaction, ports::started_release>;

/// After it was taken.
started_next decide(started_step const& s);

/// Whether a call that is running is to end, with that as the latest command for its saga: one that undoes something,
/// or that comes after the pivot, is what a cancel asks for, and goes on.
bool ends_call(started_step const& s, std::string_view command);

/// How a call ended.
struct call_outcome
{
    enum class end { happened, did_not_happen, unknown };
    end what{};
    std::string text;  // of `happened` the result, as JSON; otherwise why
};

/// Runs the user's code. Never throws what that throws.
call_outcome run_call(started_step const& s, detail::call_owner& owner);
detail::look_result run_look(started_step const& s, detail::call_owner& owner);

/// After a call. `at_once`: the process stops, and another one may ask right away.
started_next after_call(started_step const& s, call_outcome const& met, bool at_once, std::mt19937_64& random);
started_next after_look(started_step const& s, detail::look_result const& met, std::mt19937_64& random);

/// Where it is to be called or asked about, and its dependency has no room: given back; or, if it has been in doubt for
/// too long, with its saga shown as unknown, since nobody would tell otherwise while the other side is ill.
started_next unable_to_look(started_step const& s);

}  // namespace skald::runtime
