#include "runtime/group_trace.hpp"

#include <algorithm>
#include <utility>

namespace skald::runtime {
namespace {

using tracing::span_kind;

// What every span about messages says.
void describe(tracing::open_span& span, tracing::tracer const& of, std::string_view operation, std::string_view service)
{
    bool const is_queue = of.messaging_system() == "rabbitmq";
    span.set("messaging.system", of.messaging_system())
        .set("messaging.operation.name", operation)
        .set("messaging.operation.type", operation)
        .set("messaging.destination.name", (is_queue ? "skald." : "") + std::string{service});
}

}  // namespace

group_trace::group_trace(tracing::tracer* of, std::string_view service, std::span<task> tasks) : tasks_{tasks}
{
    if (of == nullptr) return;
    for (auto& one : tasks_) {
        auto& step = std::get<step_message>(one.purpose);
        causes_.push_back(step.envelope.trace);
        auto span =
            tracing::begin_span(of, step.envelope.trace, "process " + step.key().guarded_step(), span_kind::consumer);
        if (span) {
            describe(span, *of, "process", service);
            span.set("messaging.message.id", one.delivery.message.id)
                .set("skald.definition", step.envelope.definition)
                .set("skald.scope", step.envelope.saga.scope)
                .set("skald.key", step.envelope.saga.key)
                .set("skald.step", step.envelope.itinerary.current().name)
                .set("skald.direction", step.is_forward() ? "forward" : "back")
                .set("skald.attempt", step.envelope.attempt);
        }
        steps_.push_back(std::move(span));
    }
    bool const has_many = steps_.size() > 1 && std::ranges::any_of(steps_, [](auto const& s) { return bool{s}; });
    if (has_many) begin_transaction(*of, service);
}

// A trace of its own: the sagas of a batch have nothing else in common, and none is the parent of the others' work.
void group_trace::begin_transaction(tracing::tracer& of, std::string_view service)
{
    auto self = of.begin_trace();
    self.sampled = true;
    transaction_ = tracing::open_span{of, self, "receive " + std::string{service}, span_kind::client};
    describe(transaction_, of, "receive", service);
    transaction_.set("messaging.batch.message_count", static_cast<std::int64_t>(tasks_.size()));
    for (auto const& step : steps_) {
        if (!step) continue;
        transaction_.link(step.context());
    }
    for (auto& step : steps_) step.link(self);
}

group_trace::~group_trace()
{
    for (std::size_t n = 0; n < causes_.size(); ++n)
        std::get<step_message>(tasks_[n].purpose).envelope.trace = std::move(causes_[n]);
}

tracing::open_span group_trace::run(std::size_t member) const
{
    if (steps_.empty()) return {};
    return steps_[member].child(tasks_[member].step()->is_forward() ? "execute" : "compensate");
}

void group_trace::ended(std::size_t member, happened const& what)
{
    transaction_.recover();
    if (steps_.empty() || !steps_[member]) return;
    auto& span = steps_[member];
    span.set("skald.result", what.event);
    if (!what.reason.empty()) span.set("skald.reason", what.reason);
    span.recover();
    if (!what.error.empty()) span.fail(what.error);
}

void group_trace::aborted(std::string_view error)
{
    transaction_.fail(error);
    for (auto& span : steps_) span.fail(error);
}

}  // namespace skald::runtime
