// skald::start(), declared in skald/start.hpp.
#include <skald/start.hpp>

#include "core/body_reference.hpp"
#include "core/envelope.hpp"
#include "core/fingerprint.hpp"
#include "core/uuid.hpp"
#include "postgres/body_rows.hpp"
#include "postgres/literal.hpp"
#include "skald_queries.hpp"

#include <skald/detail/deadline.hpp>
#include <skald/errors.hpp>

#include <pqxx/pqxx>

#include <nlohmann/json.hpp>

namespace skald::detail {
namespace {

constexpr std::size_t outbox_row_bytes_max = 1024 * 1024;

// Only a step of this service reads what is kept in this database; and no settings are known here that name another
// place.
std::optional<core::body_reference> keep_if_large(pqxx::transaction_base& tx, core::message& m)
{
    if (m.body.size() <= outbox_row_bytes_max) return std::nullopt;
    std::string const service = tx.exec(std::string{queries::own_service})[0]["name"].c_str();
    auto const refuse = [&](std::string const& why) {
        throw data_error{"the data has " + std::to_string(m.body.size()) + " bytes: " + why};
    };
    if (m.body.size() > core::kept_body_bytes_max)
        refuse("at most " + std::to_string(core::kept_body_bytes_max) + " can be kept");
    if (m.destination != service)
        refuse("more than " + std::to_string(outbox_row_bytes_max) + " stay in this database, and the first step, " +
               m.type + ", is one of " + m.destination + ", which can't read it there: let the first step be one of " +
               (service.empty() ? "this service" : service) +
               ", or start the saga in an HTTP handler with a SKALD_BODY_STORE that both have (docs/bodies.md)");
    auto const made = core::reference_to(m.body, "the database of " + service);
    postgres::keep_body(tx, made, m.body);
    core::refer(m, made);
    return made;
}

}  // namespace

started start_saga(pqxx::transaction_base& tx, std::string_view definition, int version,
                   std::span<planned_step const> plan, std::string const& data, std::string const& attributes,
                   start_options const& options)
{
    core::envelope first;
    first.saga = {options.scope, options.key.empty() ? core::make_uuid_v7() : options.key};
    if (!core::is_key(first.saga.key)) throw std::invalid_argument{"a key is 1 to 180 bytes of printable ASCII"};
    if (!core::is_scope(first.saga.scope)) throw std::invalid_argument{"a scope is at most 64 bytes of UTF-8"};
    check_deadline(options.deadline);
    first.definition = definition;
    first.version = version;
    first.itinerary = core::make_itinerary(plan);
    first.trace = core::valid_trace(options.trace.traceparent, options.trace.tracestate);

    auto message = core::write_message(first, data);
    auto const kept = keep_if_large(tx, message);
    auto headers = nlohmann::json::object();
    for (auto const& [name, value] : message.headers)
        if (name != core::header::home) headers[name] = value;  // the database knows its own service

    auto const fingerprint = core::fingerprint_of_parts({definition, data});
    auto const rows = postgres::run_in(tx, queries::start{.scope = first.saga.scope,
                                                          .key = first.saga.key,
                                                          .definition = first.definition,
                                                          .version = version,
                                                          .data = kept ? core::stand_in_for(*kept) : data,
                                                          .itinerary = first.itinerary.text(),
                                                          .fingerprint = postgres::bytes{fingerprint},
                                                          .destination = message.destination,
                                                          .type = message.type,
                                                          .payload = postgres::bytes{message.body},
                                                          .headers = headers.dump(),
                                                          .deadline = options.deadline,
                                                          .attributes = postgres::null_if_empty(attributes)});
    std::string const result = rows[0][0].c_str();
    if (result == "mismatch") throw key_reused{"the key " + first.saga.key + " was used before for something else"};
    if (result == "in_flight")
        throw key_in_flight{"the key " + first.saga.key + " is being used by another transaction"};
    return {first.saga.key, result == "fresh"};
}

}  // namespace skald::detail
