#include "runtime/started_work.hpp"

#include "core/backoff.hpp"
#include "runtime/upcasting.hpp"

#include <skald/call.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// For a saga that is paused, and for a step of another version of this service.
constexpr auto wait_of_paused = 5s;

ports::started_release release_of(started_step const& s, std::chrono::milliseconds due_in, bool is_in_doubt)
{
    ports::started_release r{s.row.id, due_in, is_in_doubt};
    r.looks = is_in_doubt ? s.row.looks : 0;
    r.tries = s.row.tries;
    return r;
}

second_transaction end_of(started_step const& s, decltype(second_transaction::end) end)
{
    bool const is_answer = std::holds_alternative<second_transaction::answer>(end);
    return {s.row.id, is_answer && s.row.kind == ports::started_kind::call, s.row.tries, std::move(end)};
}

bool may_be_cancelled(started_step const& s)
{
    auto const& plan = s.envelope().itinerary;
    return plan.position.direction == core::direction::forward && !plan.past_pivot();
}

// Up to the pivot a command or a deadline ends what has not happened.
std::optional<given_up> stopped_by(started_step const& s)
{
    if (!may_be_cancelled(s)) return {};
    if (s.row.command == "cancel") return given_up{core::event::cancelled, s.row.command_reason};
    auto const deadline = s.envelope().deadline();
    if (deadline && *deadline <= s.row.at) return given_up{core::event::cancelled, "deadline passed"};
    return {};
}

constexpr std::string_view not_known{"what a call has done is not known"};

// With what the call itself had said, unless it has said nothing, or looks came between.
std::string why_not_happened(started_step const& s)
{
    std::string why{"a call was made, and did not happen"};
    if (!s.row.error.empty() && !s.row.error.starts_with(not_known)) why += "; it had failed: " + s.row.error;
    return why;
}

// It is known that the latest call has not happened.
started_next did_not_happen(started_step const& s, std::string const& why, std::chrono::milliseconds again_in)
{
    if (auto stop = stopped_by(s)) return end_of(s, *std::move(stop));
    if (s.row.calls >= s.hosted().options.retry.attempts_max)
        return end_of(s, given_up{core::event::attempts_exhausted, why});
    auto release = release_of(s, again_in, false);
    release.why = why;
    return end_of(s, postponed{core::step_status::started, true, std::move(release)});
}

started_next shown_as_unknown(started_step const& s, ports::started_release release)
{
    release.is_shown = true;
    return end_of(s, postponed{core::step_status::unknown, false, std::move(release), s.row.is_unshown});
}

started_next decide_wait(started_step const& s, nlohmann::json const& answer)
{
    if (auto stop = stopped_by(s)) return end_of(s, *std::move(stop));
    if (s.row.command == "pause") return release_of(s, wait_of_paused, false);
    // One that does not fit its type keeps nobody's time from coming.
    if (answer.contains("signal")) {
        auto signal = answer["signal"].dump();
        if (s.row.left > 0ms || !s.work->why_no_signal(signal))
            return end_of(s, second_transaction::answer{std::move(signal)});
    }
    if (s.row.left <= 0ms) return end_of(s, second_transaction::answer{});
    auto due_in = s.row.left;
    if (auto const deadline = s.envelope().deadline())
        due_in = std::min(due_in, std::chrono::ceil<std::chrono::milliseconds>(*deadline - s.row.at));
    return release_of(s, due_in, false);
}

std::string data_of(started_step const& s)
{
    auto const& body = s.row.message.body;
    return upcast(*s.delivery.step(), body).value_or(body);
}

call_context context_of(started_step const& s, detail::call_owner& owner)
{
    std::optional<nlohmann::json> checkpoint;
    if (s.row.checkpoint) checkpoint = nlohmann::json::parse(*s.row.checkpoint);
    auto const& e = s.envelope();
    return {owner,       e.saga.scope,          e.saga.key, s.delivery.step()->key().text(),
            s.row.calls, std::move(checkpoint), e.trace};
}

}  // namespace

ports::started_release uncalled(ports::started_steps::taken const& row, std::chrono::milliseconds again_in)
{
    ports::started_release r{row.id, again_in, row.was_in_doubt};
    r.looks = row.looks;
    r.tries = row.tries;
    r.is_uncalled = row.kind == ports::started_kind::call && !row.was_in_doubt && !row.answer &&
                    row.command != "pause";  // as skald.take_started counts
    return r;
}

std::optional<started_step> recognize(ports::started_steps::taken row, std::string_view service, registry const& steps)
{
    ports::delivery d;
    d.message = row.message;
    d.message.destination = service;
    auto delivery = route(std::move(d), service, steps);
    auto const* const step = delivery.step();
    if (step == nullptr || step->hosted == nullptr || delivery.refused) return {};
    auto const* const work = step->hosted->step->external(step->is_forward());
    if (work == nullptr || work->is_call() != (row.kind == ports::started_kind::call)) return {};
    return started_step{std::move(row), std::move(delivery), work};
}

started_next decide(started_step const& s)
{
    auto const answer = s.row.answer ? nlohmann::json::parse(*s.row.answer) : nlohmann::json::object();
    if (s.row.kind == ports::started_kind::wait) return decide_wait(s, answer);
    // What has happened is recorded, whatever was said since: if the saga compensates, it is undone by that.
    if (answer.contains("happened")) return end_of(s, second_transaction::answer{answer["happened"].dump()});
    bool const is_told_no = answer.contains("did_not_happen");
    if (s.row.was_in_doubt && !is_told_no) return take_look{};
    if (is_told_no) return did_not_happen(s, "it did not happen: " + answer["did_not_happen"].get<std::string>(), 0ms);
    if (auto stop = stopped_by(s)) return end_of(s, *std::move(stop));
    if (s.row.command == "pause" || s.row.command == "close") return release_of(s, wait_of_paused, false);
    // The transaction that was to record this has failed before.
    if (s.row.calls > s.hosted().options.retry.attempts_max)
        return end_of(s, given_up{core::event::attempts_exhausted, "it was called as often as it may be"});
    return make_call{};
}

bool ends_call(started_step const& s, std::string_view command)
{
    return command == "pause" || command == "close" || (command == "cancel" && may_be_cancelled(s));
}

call_outcome run_call(started_step const& s, detail::call_owner& owner)
try {
    auto ctx = context_of(s, owner);
    return {call_outcome::end::happened, s.work->call(ctx, data_of(s))};
}
catch (did_not_happen_error const& error) {
    return {call_outcome::end::did_not_happen, error.what()};
}
catch (std::exception const& error) {
    return {call_outcome::end::unknown, error.what()};
}
catch (...) {
    return {call_outcome::end::unknown, "an exception that is no std::exception"};
}

detail::look_result run_look(started_step const& s, detail::call_owner& owner)
try {
    auto ctx = context_of(s, owner);
    return s.work->look(ctx, data_of(s));
}
catch (std::exception const& error) {
    return {detail::look_result::answer::unknown, error.what()};
}
catch (...) {
    return {detail::look_result::answer::unknown, "an exception that is no std::exception"};
}

started_next after_call(started_step const& s, call_outcome const& met, bool at_once, std::mt19937_64& random)
{
    auto const& options = s.hosted().options;
    if (met.what == call_outcome::end::happened) return end_of(s, second_transaction::answer{met.text});
    if (met.what == call_outcome::end::did_not_happen) {
        core::backoff const backoff{options.retry.first, options.retry.longest};
        return did_not_happen(s, met.text, backoff.wait(s.row.calls, random));
    }
    // The request may still be under way there: what is asked too early may get a no that is not final.
    auto release = release_of(s, at_once ? 0ms : options.call.look_first, true);
    release.why = met.text;
    return release;
}

started_next after_look(started_step const& s, detail::look_result const& met, std::mt19937_64& random)
{
    using answer = detail::look_result::answer;
    auto const& options = s.hosted().options.call;
    if (met.what == answer::happened) return end_of(s, second_transaction::answer{met.text});
    if (met.what == answer::did_not_happen) return did_not_happen(s, why_not_happened(s), 0ms);
    core::backoff const backoff{options.look_first, options.look_longest};
    // At least half of the ceiling: who has just said that he does not know is not asked again at once.
    auto const ceiling = backoff.ceiling(s.row.looks + 1);
    auto release = release_of(s, ceiling / 2 + core::backoff{ceiling / 2, ceiling / 2}.wait(1, random), true);
    release.looks = s.row.looks + 1;
    release.why = std::string{not_known} + (met.text.empty() ? "" : ": " + met.text);
    if (s.row.in_doubt_for < options.unknown_after) return release;
    return shown_as_unknown(s, std::move(release));
}

started_next unable_to_look(started_step const& s)
{
    bool const is_to_be_told = s.row.was_in_doubt && !s.row.answer && s.row.is_unshown &&
                               s.row.in_doubt_for >= s.hosted().options.call.unknown_after;
    auto release = uncalled(s.row, 0ms);
    if (!is_to_be_told) return release;
    release.why = std::string{not_known} + ": the other side can't be asked now";
    return shown_as_unknown(s, std::move(release));
}

}  // namespace skald::runtime
