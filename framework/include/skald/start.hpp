// Starting a saga from a transaction of your own.
#pragma once

#include <skald/definition.hpp>
#include <skald/detail/data.hpp>
#include <skald/trace.hpp>

#include <chrono>
#include <optional>
#include <span>
#include <string>

namespace pqxx {
class transaction_base;
}

namespace skald {

/// A new unique key: a UUIDv7 (RFC 9562), so that keys increase with time. Also suitable as an id for your own rows.
/// Threads: any.
std::string make_key();

/// Optional arguments of start().
struct start_options
{
    std::string key{};    // 1..180 bytes of printable ASCII; empty: Skald generates one (UUIDv7)
    std::string scope{};  // at most 64 bytes

    /// How long from now, by this database's clock, steps up to the pivot may begin; after that the saga compensates.
    /// 0: no limit. A saga that is past its pivot by then completes.
    std::chrono::milliseconds deadline{};

    /// Of what starts it, so that its steps appear in that trace. Dropped if it is malformed.
    trace_context trace{};
};

/// What start() returns.
struct started
{
    std::string key;  // the saga's, within its scope
    bool is_new{};    // false: this key has already started the same saga with the same data
};

namespace detail {

started start_saga(pqxx::transaction_base& tx, std::string_view definition, int version,
                   std::span<planned_step const> plan, std::string const& data, std::string const& attributes,
                   start_options const& options);

}  // namespace detail

/// Starts a saga as part of `tx`: it exists and will run if and only if `tx` commits. Its home is this database.
///
///     pqxx::work tx{connection};
///     tx.exec("UPDATE cart SET closed = true WHERE id = 42");
///     skald::start(tx, place_order, my_order, {.key = "order-42"});
///     tx.commit();
///
/// Data of more than 1 MiB, up to 64, is kept in this database, for a first step of this service, whatever
/// SKALD_BODY_STORE says; each MiB is one more round trip (docs/bodies.md).
///
/// Transaction: one round trip; inserts into skald.idempotency, skald.saga, skald.outbox and, of a definition with
///              attributes, skald.attribute; never commits. Written for READ COMMITTED.
/// Threads:     as for `tx`: one.
/// Throws:      key_reused if the key started something else; key_in_flight if another transaction is starting it now;
///              std::invalid_argument for a malformed key, a negative deadline or one of more than 1000 years;
///              data_error, also for attributes that are too long, for data of more than 1 MiB if the first step is
///              another service's, and of more than 64 MiB; what pqxx throws. `data` is serialized before any SQL
///              runs.
template <class Data, step_kind... Kinds>
started start(pqxx::transaction_base& tx, definition<Data, Kinds...> const& saga, Data const& data,
              start_options const& options = {})
{
    return detail::start_saga(tx, saga.name, saga.version, saga.steps, detail::write_data(data),
                              detail::attributes_of(saga, data), options);
}

}  // namespace skald
