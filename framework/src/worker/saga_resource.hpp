// GET and DELETE of /sagas/{key}: how a saga stands, for its client, and its cancel.
#pragma once

#include "admin/saga_view.hpp"
#include "core/log.hpp"
#include "http/handler.hpp"
#include "postgres/postgres_store.hpp"
#include "runtime/memory_source.hpp"

namespace skald::worker_detail {

/// Threads: one for each lane.
class saga_resource
{
public:
    saga_resource(postgres::postgres_store& store, runtime::memory_source& out, core::logger& log)
        : store_{store}, out_{out}, log_{log}
    {}

    /// The saga; while it has not ended, a client that asked for it by ?wait=N, or prefers it, may wait. Never throws.
    http::reply show(http::request const& r, core::saga_id const& id);

    /// Gives the order that `skald saga cancel` gives, once however often it is asked. Never throws.
    http::response cancel(core::saga_id const& id);

private:
    http::response try_to_cancel(postgres::connection& c, core::saga_id const& id);
    /// In a catch block: 503 where to ask again may help, else 500.
    http::response failed(char const* event, std::exception const& error);

    postgres::postgres_store& store_;
    runtime::memory_source& out_;
    core::logger& log_;
};

}  // namespace skald::worker_detail
