// The spans of tasks that run together: one for the transaction, with links to what each of them results from; and one
// for each step, in its own saga's trace. Names and attributes: OpenTelemetry's conventions for messaging.
#pragma once

#include "runtime/step_consequences.hpp"
#include "runtime/task.hpp"
#include "tracing/tracer.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald::runtime {

/// While it lives, the envelope of a step's message has the step's own span as its trace, so that it is the parent of
/// everything that follows from the step; afterwards it has the sender's again. If nothing is sampled, it costs a look
/// at each task.
class group_trace
{
public:
    /// `of` may be null. `tasks` are of one step in one direction, and must outlive it.
    group_trace(tracing::tracer* of, std::string_view service, std::span<task> tasks);
    ~group_trace();
    group_trace(group_trace const&) = delete;
    group_trace& operator=(group_trace const&) = delete;

    /// A part of the transaction, "claim" or "commit"; it ends with the object.
    tracing::open_span part(std::string_view name) const { return transaction().child(name); }

    /// The run of a step's own code; it ends with the object.
    tracing::open_span run(std::size_t member) const;

    /// For the log line and the span: what became of it, once that is committed.
    void ended(std::size_t member, happened const& what);

    /// The transaction did not commit.
    void aborted(std::string_view error);

private:
    tracing::open_span const& transaction() const { return steps_.size() == 1 ? steps_.front() : transaction_; }
    void begin_transaction(tracing::tracer& of, std::string_view service);

    std::span<task> tasks_;
    std::vector<trace_context> causes_;      // by member, as they came; empty if no tracer is there
    std::vector<tracing::open_span> steps_;  // likewise; nothing where it is not sampled
    tracing::open_span transaction_;         // of several
};

}  // namespace skald::runtime
