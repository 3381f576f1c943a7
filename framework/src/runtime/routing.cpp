#include "runtime/task.hpp"

#include "core/assert.hpp"
#include "core/body_reference.hpp"
#include "transports/message_limits.hpp"

#include <skald/detail/data.hpp>
#include <skald/errors.hpp>

#include <utility>

namespace skald::runtime {
namespace {

constexpr char const* given_up_by_broker = "the broker stopped delivering it: it came back too often";

// Why the step can't run here. A message from the future, or for a step that another process of this service may have,
// waits: while a service is being deployed, both versions of it take messages off one queue.
std::optional<unrunnable> not_hosted(step_message const& m, std::string_view service, registry const& steps)
{
    auto const& e = m.envelope;
    auto const& step = e.itinerary.current();
    auto const refuse = [](std::string why, std::chrono::milliseconds for_deploy = {}) {
        return unrunnable{"unknown_step", std::move(why), for_deploy};
    };
    auto const nobody = "service " + std::string{service} + " hosts no step " + step.name + " of " + e.definition;
    if (step.service != service) return refuse(nobody);
    if (m.hosted == nullptr) return refuse(nobody, steps.for_deploy());
    if (e.version > m.hosted->version)
        return refuse("the message is of version " + std::to_string(e.version) + " of " + e.definition +
                          ", and this process knows up to " + std::to_string(m.hosted->version),
                      steps.for_deploy());
    if (step.kind != m.hosted->kind)
        return refuse("the itinerary gives step " + step.name + " another kind than this service");
    return std::nullopt;
}

void route_step(task& t, std::string_view service, registry const& steps)
{
    auto const& m = t.delivery.message;
    auto read = core::read_envelope(m);
    if (auto* const refused = std::get_if<core::refusal>(&read)) {
        t.purpose = unreadable_message{"malformed", std::move(refused->why)};
        return;
    }
    auto e = std::get<core::envelope>(std::move(read));
    auto const* const hosted = steps.find(e.definition, e.itinerary.current().name, e.version);
    t.kept = core::reference_in(m);
    step_message const step{std::move(e), hosted, t.kept ? t.kept->fingerprint : core::fingerprint_of(m.body)};
    if (t.delivery.given_up) t.refused = {"delivery_limit", given_up_by_broker};
    else t.refused = not_hosted(step, service, steps);
    // One that was tried before, or was being processed when its process died, could fail its whole batch. A large one
    // alone is what a lane holds in memory.
    t.alone = t.kept || t.refused || step.envelope.fencing_token() > 1 || t.delivery.returns > 0;
    t.purpose = step;
}

// Finds the key in the message, whose body is `m`'s own by now.
void identify(task& t, step_message found, core::message const& m)
{
    auto read = core::read_foreign(m, *found.hosted->handles);
    if (auto* const refused = std::get_if<core::refused_message>(&read)) {
        t.purpose = unreadable_message{refused->reason, std::move(refused->why)};
        return;
    }
    auto& accepted = std::get<core::accepted_message>(read);
    auto& e = found.envelope;
    e.saga = std::move(accepted.identity);
    e.attempt = accepted.attempt;
    e.snoozes = accepted.snoozes;
    e.trace = std::move(accepted.trace);
    t.alone = t.kept || t.refused || e.fencing_token() > 1 || t.delivery.returns > 0;
    found.fingerprint = core::fingerprint_of(accepted.payload);
    found.payload = std::move(accepted.payload);
    t.purpose = std::move(found);
}

// As a plan of one step, which is not a saga's.
void route_handled(task& t, std::string_view service, registry const& steps)
{
    core::restore_properties(t.delivery.message);
    auto const& m = t.delivery.message;
    auto const* const hosted = steps.find("", t.delivery.handler);
    if (hosted == nullptr) {
        bool const may_wait = !t.delivery.given_up && core::is_kept_by_outbox(m);
        t.purpose = unreadable_message{
            "unknown_step", "service " + std::string{service} + " has no message handler " + t.delivery.handler,
            may_wait ? steps.for_deploy() : std::chrono::milliseconds{0}};
        return;
    }
    std::erase_if(t.delivery.message.headers, [](auto const& one) { return one.first == core::header::waits_since; });
    step_message found{};
    found.hosted = hosted;
    found.envelope.itinerary.steps = {{t.delivery.handler, std::string{service}, step_kind::retriable}};
    t.kept = core::reference_in(m);
    if (!t.kept) {
        if (t.delivery.given_up) t.refused = {"delivery_limit", given_up_by_broker};
        return identify(t, std::move(found), m);
    }
    t.alone = true;
    // To read it may be what it was given up for.
    if (t.delivery.given_up) t.purpose = unreadable_message{"delivery_limit", given_up_by_broker};
    else t.purpose = std::move(found);
}

void route_command(task& t)
{
    auto read = core::read_command(t.delivery.message.body);
    if (auto* const bad = std::get_if<core::bad_command>(&read))
        t.purpose = unreadable_message{"malformed", std::move(bad->why)};
    else t.purpose = command_message{std::get<core::command>(std::move(read))};
}

// Empty if its body is its own, or a reference that is well-formed.
std::string wrong_reference(task const& t)
{
    auto const& m = t.delivery.message;
    if (!core::is_kept_elsewhere(m)) return {};
    if (t.delivery.handler.empty() && m.type.starts_with("skald."))
        return "its body is kept elsewhere: only a step's or a handler's may be";
    if (!core::reference_in(m)) return "header skald-body is malformed, is given twice, or comes with a body";
    return {};
}

}  // namespace

task route(ports::delivery d, std::string_view service, registry const& steps, core::key_ring const* must_be_signed)
{
    task t{std::move(d), {}};
    if (!t.delivery.handler.empty()) {  // its senders know nothing of Skald, and sign nothing
        if (!t.delivery.problem.empty()) t.purpose = unreadable_message{"malformed", t.delivery.problem};
        else if (auto wrong = wrong_reference(t); !wrong.empty()) t.purpose = unreadable_message{"malformed", wrong};
        else if (auto why = transports::why_never_again(t.delivery.message); !why.empty())
            t.purpose = unreadable_message{"malformed", "it could never be tried again: " + why};
        else route_handled(t, service, steps);
        return t;
    }
    // Before anything it says is believed, even that it is malformed: a replay would sign what was parked for that.
    if (must_be_signed != nullptr)
        if (auto bad = must_be_signed->check(t.delivery.message)) {
            t.purpose = unreadable_message{bad->reason, std::move(bad->why)};
            return t;
        }
    auto const& type = t.delivery.message.type;
    if (!t.delivery.problem.empty()) t.purpose = unreadable_message{"malformed", t.delivery.problem};
    else if (auto wrong = wrong_reference(t); !wrong.empty()) t.purpose = unreadable_message{"malformed", wrong};
    else if (type == core::progress_type) t.purpose = report_message{&ports::changes::progress};
    else if (type == core::expire_type) t.purpose = report_message{&ports::changes::ended};
    else if (type == core::expired_type) t.purpose = report_message{&ports::changes::expired};
    else if (type == core::signal_type) t.purpose = report_message{&ports::changes::signals};
    else if (type == core::control_type) route_command(t);
    else route_step(t, service, steps);
    return t;
}

void take_body(task& t, std::string body)
{
    SKALD_ASSERT(t.is_unread());
    auto whole = t.delivery.message;
    whole.body = std::move(body);
    identify(t, *t.step(), whole);
    if (auto* const found = std::get_if<step_message>(&t.purpose)) found->body = std::move(whole.body);
}

void task::forget_body()
{
    auto* const found = std::get_if<step_message>(&purpose);
    if (!kept || found == nullptr) return;
    found->payload.reset();
    std::string{}.swap(found->body);
}

void task::put_back(failure why, reaction then, bool was_alone)
{
    tries = rolled_back_by == why ? tries + 1 : 1;
    if (why == failure::lock_timeout && !was_alone) tries = 0;  // maybe another member's lock
    rolled_back_by = why;
    if (was_alone && (why == failure::connection_lost || why == failure::in_doubt)) ++lost;
    if (then == reaction::each_alone) alone = true;
}

}  // namespace skald::runtime
