// The guard for requests: one request, one transaction, one response for each key.
#pragma once

#include "core/fingerprint.hpp"
#include "core/log.hpp"
#include "entry/known_requests.hpp"
#include "entry/request_front.hpp"
#include "entry/routes.hpp"
#include "ports/store.hpp"
#include "runtime/backlog.hpp"
#include "runtime/memory_source.hpp"
#include "runtime/registry.hpp"
#include "tracing/tracer.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace skald::entry_detail {

/// Where a request belongs in a trace: what its handler passes on, and its own span, which is nothing if that is not
/// sampled.
struct request_trace
{
    trace_context passed_on{};
    tracing::open_span span{};
};

/// Distinguishes the request from another one under the same key: its method, target and body. The path counts as
/// sent: decoded, "/a%2Fb/c" and "/a/b%2Fc" would look alike. The route does not: it is the program's affair, and a
/// retry may reach the next version of it.
core::fingerprint fingerprint_of(http::request const& r);

/// The trace that a request belongs to: its headers, if they are valid and there is one `traceparent`. Several
/// `tracestate` are one list (W3C Trace Context 3.3).
trace_context trace_of(http::request const& r);

/// The response to a duplicate of a request that is in flight in this process or ended here a moment ago, without
/// asking the database; or nothing.
std::optional<http::reply> find_known(known_requests& known, guarded_request const& r);

/// Threads: one, like its store.
class request_guard
{
public:
    /// `known` is shared by all guards of the process. `steps`: what the service hosts; null: that is not compared with
    /// the sagas that handlers start.
    request_guard(std::string service, ports::store& store, known_requests& known, runtime::backlog const& backlog,
                  runtime::memory_source& out, core::logger& log, runtime::registry const* steps = nullptr);

    /// Claims the key, runs the handler and commits; or finds out what became of the first request with the key. Never
    /// throws: failures become 500 or 503 and leave nothing behind. If the first request with the key is still in
    /// flight, a client that prefers to wait may do so. `mark`: the request's at the front, if it has one.
    http::reply respond(guarded_request const& r, request_trace const& trace, front_mark mark = {});

private:
    struct call;

    http::response respond_whatever_breaks(call& c);
    http::response try_until_known(call& c);
    std::optional<http::response> try_once(call& c);
    std::optional<http::response> claim_and_run(call& c);
    ports::request_claim claim(call& c, std::optional<std::chrono::milliseconds> wait);
    http::response run(call& c);
    http::response run_unguarded(call& c);
    void refuse_sagas(call const& c, http::request_context const& ctx, http::response const& answer) const;
    void refuse_unhosted(http::detail::started_saga const& saga) const;
    static bool leaves_nothing(call const& c, http::response const& made);
    http::response call_handler(call const& c, http::request_context& ctx);
    http::response explain_unclaimed(call& c, ports::request_claim&& met);
    http::response store_refusal(call& c, http::response made);
    void add_sagas(ports::changes& changes, call const& c, http::request_context const& ctx) const;
    void commit(call& c, http::request_context const& ctx, ports::changes changes);
    http::response replay(call& c, ports::request_claim&& met);
    static http::response unknown(call const& c);
    void log_failure(call const& c, core::severity level, std::string_view error) const;
    void cache(call& c, std::optional<ports::stored_response> const& stored, core::instant stored_at);

    std::string service_;
    ports::store& store_;
    known_requests& known_;
    runtime::backlog const& backlog_;
    runtime::memory_source& out_;
    core::logger& log_;
    runtime::registry const* steps_;
};

}  // namespace skald::entry_detail
