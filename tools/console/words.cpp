#include "words.hpp"

#include "core/reasons.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace skald::console {

using state = run::state;

std::string duration(std::chrono::microseconds time)
{
    using namespace std::chrono;
    auto const t = std::max(time, microseconds{0});
    if (t < milliseconds{1}) return fmt::format("{:.1f} ms", static_cast<double>(t.count()) / 1'000);
    if (t < seconds{1}) return fmt::format("{} ms", floor<milliseconds>(t).count());
    if (t < minutes{2}) return fmt::format("{:.1f} s", static_cast<double>(t.count()) / 1'000'000);
    if (t < hours{2}) return fmt::format("{} min", floor<minutes>(t).count());
    if (t < hours{48}) return fmt::format("{} h", floor<hours>(t).count());
    return fmt::format("{} days", floor<days>(t).count());
}

std::string shown_time(std::string const& instant)
{
    if (instant.size() < 23) return instant;
    return instant.substr(0, 10) + ' ' + instant.substr(11, 12);
}

std::string shown_time(core::instant at)
{
    return shown_time(core::write_instant(at));
}

std::string number(std::int64_t count)
{
    auto text = std::to_string(count);
    for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
        text.insert(static_cast<std::size_t>(at), ",");
    return text;
}

std::string counted(std::int64_t count, std::string const& one, std::string const& many)
{
    return count == 1 ? "1 " + one : number(count) + ' ' + many;
}

std::string in_short(run const& of, core::instant start, bool is_compensation)
{
    bool const is_later = of.at && *of.at - start >= std::chrono::milliseconds{1};
    auto const after = is_later ? " +" + duration(*of.at - start) : std::string{};
    switch (of.is) {
    case state::never: return "never ran";
    case state::pending:
        if (is_compensation) return of.is_next ? "to be undone now" : "to be undone";
        return of.is_next ? "comes next" : "not yet";
    case state::running: return of.waits_for.empty() ? "has begun" : "waits for " + of.waits_for;
    case state::unknown: return "nobody knows what its call has done";
    case state::retrying:
        if (of.error == "snoozed") return "snoozed, comes again";
        if (of.attempts == 0) return "put back, comes again";
        return fmt::format("failed {}, tries again", of.attempts == 1 ? "once" : std::to_string(of.attempts) + "×");
    case state::done: return (is_compensation ? "undone" : "done") + after;
    case state::rejected: return (of.error.starts_with(core::last_attempt_mark) ? "failed" : "rejected") + after;
    case state::parked: return "parked" + after;
    case state::cancelled:
        if (of.error == core::nothing_to_undo) return "nothing to undo";
        return "cancelled" + after;
    }
    return {};
}

std::string deliveries(run const& of, bool is_compensation)
{
    if (of.is == state::never || of.is == state::pending) return {};
    auto const seen = of.delivered ? fmt::format("delivered {}×", *of.delivered)
                                   : counted(of.attempts + of.snoozes, "attempt", "attempts");
    switch (of.is) {
    case state::done: return seen + (is_compensation ? " · once" : " · applied once");
    case state::rejected:
    case state::cancelled: return seen + " · decided once";
    case state::running:
    case state::unknown: return seen;  // its first transaction has had an effect
    default: return seen + " · no effect";
    }
}

std::string whereabouts(run const& of, std::string const& service, core::instant now)
{
    if (of.message) {
        auto const since = duration(now - of.message->since);
        if (of.message->where == message_place::kind::parked)
            return fmt::format("its message has been parked at {} for {}", of.message->service, since);
        return fmt::format("its message has been in the outbox of {} for {}{}", of.message->service, since,
                           of.message->waits ? ", and waits there for its next try" : "");
    }
    if (of.is == state::running || of.is == state::unknown || of.is == state::parked) return {};
    if (!of.is_next) return {};
    return fmt::format("its message has left every outbox: it is in the queue of {}, or on its way", service);
}

std::string tone(run const& of, bool is_compensation)
{
    switch (of.is) {
    case state::done: return is_compensation ? "undo" : "ok";
    case state::rejected:
    case state::unknown:
    case state::parked: return "no";
    case state::cancelled: return is_compensation ? "wait" : "no";
    case state::retrying:
    case state::running: return "busy";
    default: return of.is_next ? "busy" : "wait";
    }
}

std::string tone_of_status(std::string const& status)
{
    if (status == "completed") return "ok";
    if (status == "compensated" || status == "compensating") return "undo";
    if (status == "stuck" || status == "unknown") return "no";
    return "busy";
}

}  // namespace skald::console
