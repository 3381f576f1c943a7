// GET and DELETE of /sagas/{key}: the state of a saga, for its client, and its cancellation.
#pragma once

#include "admin/saga_view.hpp"
#include "core/log.hpp"
#include "http/handler.hpp"
#include "postgres/postgres_store.hpp"

#include <functional>
#include <utility>

namespace skald::entry_detail {

/// Threads: one, like its store.
class saga_resource
{
public:
    /// `wake` is called after a command took effect: what it left in the database is looked for at once.
    saga_resource(postgres::postgres_store& store, std::function<void()> wake, core::logger& log)
        : store_{store}, wake_{std::move(wake)}, log_{log}
    {}

    /// Shows the saga. While it has not ended, a client may wait, with ?wait=N or the Prefer header. Never throws.
    http::reply show(http::request const& r, core::saga_id const& id);

    /// Issues the same command as `skald saga cancel`, once however often it is called. Never throws.
    http::response cancel(core::saga_id const& id);

private:
    http::response try_to_cancel(postgres::connection& c, core::saga_id const& id, bool& is_asked);
    /// 503: the same DELETE, sent again, finds out.
    http::response in_doubt(core::saga_id const& id, std::string const& why);
    /// To be called in a catch block: 503 if a retry may help, otherwise 500.
    http::response failed(char const* event, std::exception const& error);

    postgres::postgres_store& store_;
    std::function<void()> wake_;
    core::logger& log_;
};

}  // namespace skald::entry_detail
