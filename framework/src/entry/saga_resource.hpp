// GET and DELETE of /sagas/{key}: the state of a saga, for its client, and its cancellation.
#pragma once

#include "admin/saga_view.hpp"
#include "core/log.hpp"
#include "http/handler.hpp"
#include "postgres/postgres_store.hpp"
#include "runtime/memory_source.hpp"

namespace skald::entry_detail {

/// Threads: one, like its store.
class saga_resource
{
public:
    saga_resource(postgres::postgres_store& store, runtime::memory_source& out, core::logger& log)
        : store_{store}, out_{out}, log_{log}
    {}

    /// Shows the saga. While it has not ended, a client may wait, with ?wait=N or the Prefer header. Never throws.
    http::reply show(http::request const& r, core::saga_id const& id);

    /// Issues the same command as `skald saga cancel`, once however often it is called. Never throws.
    http::response cancel(core::saga_id const& id);

private:
    http::response try_to_cancel(postgres::connection& c, core::saga_id const& id);
    /// To be called in a catch block: 503 if a retry may help, otherwise 500.
    http::response failed(char const* event, std::exception const& error);

    postgres::postgres_store& store_;
    runtime::memory_source& out_;
    core::logger& log_;
};

}  // namespace skald::entry_detail
