// What the executor counts, for /metrics and for skald.deliveries_seen, and what it logs of an outcome.
#include "runtime/executor.hpp"

namespace skald::runtime {
namespace {

// When one delivery in 64 fails its transaction, half of those in batches of 32 would run twice: not worth trying.
constexpr double often = 1.0 / 64;

}  // namespace

// Deliveries of a step that this service does not have are parked, and counted as that.
metrics::direction_metrics& executor::counts_of(task const& first)
{
    auto const& step = *first.step();
    return step.hosted != nullptr ? step.hosted->counts->of(step.is_forward()) : counts_->unhosted;
}

void executor::count_abort(metrics::direction_metrics& counts, failure why)
{
    counts.rolled_back.at(static_cast<std::size_t>(why)).add();
    if (why == failure::in_doubt) counts_->metrics.doubts.in_doubt.add();
}

void executor::count_outcome(metrics::direction_metrics& counts, task const& t, ports::claim_answer const& claimed,
                             happened const& what)
{
    using metrics::step_end;
    bool const was_in_doubt = t.rolled_back_by == failure::in_doubt;
    bool const met_own_commit = was_in_doubt && what.end == step_end::duplicate;
    if (met_own_commit) counts_->metrics.doubts.had_committed.add();
    else if (was_in_doubt && must_run(claimed)) counts_->metrics.doubts.had_rolled_back.add();
    counts.ends[met_own_commit ? step_end::completed : what.end].add();
    if (what.end == step_end::parked) counts_->metrics.was_parked(what.reason);

    bool const is_duplicate = what.end == step_end::duplicate && !met_own_commit;
    bool const is_redelivered = t.delivery.returns > 0 && must_run(claimed);
    if (!is_duplicate && !is_redelivered) return;
    auto const& step = *t.step();
    counts_->seen.met_again(
        {step.envelope.saga.scope, step.envelope.saga.key, step.key().guarded_step(), step.envelope.home},
        is_duplicate);
}

bool executor::often_fails(registered_step const& step) const
{
    auto const it = failure_rate_.find(&step);
    return it != failure_rate_.end() && it->second > often;
}

void executor::record_result(registered_step const& step, bool fails)
{
    auto& share = failure_rate_[&step];
    share += ((fails ? 1.0 : 0.0) - share) / 64;
}

void executor::log_outcome(task const& t, happened const& what)
{
    auto const& e = t.step()->envelope;
    auto const key = t.step()->key().text();
    auto const trace = core::parse_traceparent(e.trace.traceparent);
    auto const trace_id = trace ? trace->trace_id_text() : "", span_id = trace ? trace->span_id_text() : "";
    std::vector<core::log_field> fields{{"key", key}, {"scope", e.saga.scope}};
    if (!what.reason.empty()) fields.emplace_back("reason", what.reason);
    if (!what.error.empty()) fields.emplace_back("error", what.error);
    if (what.attempt > 0) fields.emplace_back("attempt", what.attempt);
    fields.emplace_back("step", e.itinerary.current().name);
    if (trace) fields.insert(fields.end(), {{"trace_id", trace_id}, {"span_id", span_id}});
    log_.write(what.level, what.event, fields);
}

}  // namespace skald::runtime
