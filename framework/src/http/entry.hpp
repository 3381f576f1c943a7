// The guard at the HTTP entry: one request, one transaction, one answer for each key.
#pragma once

#include "core/log.hpp"
#include "ports/store.hpp"
#include "runtime/backlog.hpp"
#include "runtime/wakeup.hpp"

#include <skald/http_handler.hpp>

#include <optional>
#include <string>

namespace skald::http {

/// Threads: one entry for each lane.
class entry
{
public:
    entry(std::string service, ports::store& store, runtime::backlog const& backlog, runtime::wakeup& relay,
          core::logger& log);

    /// Never throws: what breaks is answered with 500 or 503, and leaves nothing behind.
    response answer(request const& r, std::string_view route, std::string const& scope, entry_handler const& handle);

private:
    struct call;

    std::optional<response> try_to_answer(call& c);
    response refuse_for_now() const;
    response run(call const& c);
    std::optional<response> refuse(call const& c, response const& answer);
    response replay(call const& c);
    void commit(call const& c, request_context const& ctx, response const& answer);

    std::string service_;
    ports::store& store_;
    runtime::backlog const& backlog_;
    runtime::wakeup& relay_;
    core::logger& log_;
    bool committed_{};  // the request that is being answered has committed
};

}  // namespace skald::http
