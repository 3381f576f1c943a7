// The guard at the HTTP entry: one request, one transaction, one response for each key.
#pragma once

#include "core/log.hpp"
#include "http/handler.hpp"
#include "http/known_requests.hpp"
#include "ports/store.hpp"
#include "runtime/backlog.hpp"
#include "runtime/memory_source.hpp"

#include <skald/http_handler.hpp>

#include <optional>
#include <string>

namespace skald::http {

struct entry_route
{
    std::string method;
    std::string pattern;
    idempotency key{};
    entry_handler handler;
};

/// The response to a duplicate of a request that is running in this process or ended here a moment ago, without asking
/// the database; or nothing.
std::optional<reply> answer_to_known(known_requests const& known, request const& r, entry_route const& route,
                                     std::string const& scope);

/// Threads: one entry for each lane.
class entry
{
public:
    /// `known` is shared by all lanes.
    entry(std::string service, ports::store& store, known_requests& known, runtime::backlog const& backlog,
          runtime::memory_source& out, core::logger& log);

    /// Never throws: failures become 500 or 503 and leave nothing behind. If the first request with the key is still
    /// running, a client that prefers to wait may do so.
    reply answer(request const& r, entry_route const& route, std::string const& scope);

private:
    struct call;

    response answer_whatever_breaks(call& c);
    response answer(call& c);
    std::optional<response> try_to_answer(call& c);
    std::optional<response> claim_and_run(call& c);
    response run(call& c);
    response run_unguarded(call& c);
    static bool leaves_nothing(call const& c, response const& answer);
    response handled(call const& c, request_context& ctx);
    response answer_unclaimed(call& c, ports::request_claim&& met);
    response refuse(call& c, response answer);
    void add_sagas(ports::changes& changes, call const& c, request_context const& ctx) const;
    void commit(call& c, request_context const& ctx, ports::changes changes);
    response replay(call const& c, std::optional<ports::stored_response>&& stored);
    void keep(call const& c, std::optional<ports::stored_response> const& stored);

    std::string service_;
    ports::store& store_;
    known_requests& known_;
    runtime::backlog const& backlog_;
    runtime::memory_source& out_;
    core::logger& log_;
};

}  // namespace skald::http
