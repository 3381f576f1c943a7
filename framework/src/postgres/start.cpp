// skald::start(), declared in skald/start.hpp.
#include <skald/start.hpp>

#include "core/envelope.hpp"
#include "core/fingerprint.hpp"
#include "core/uuid.hpp"
#include "postgres/literal.hpp"
#include "skald_queries.hpp"

#include <skald/detail/deadline.hpp>
#include <skald/errors.hpp>

#include <pqxx/pqxx>

#include <nlohmann/json.hpp>

namespace skald::detail {

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

    auto const message = core::write_message(first, data);
    auto headers = nlohmann::json::object();
    for (auto const& [name, value] : message.headers)
        if (name != core::header::home) headers[name] = value;  // the database knows its own service

    auto const fingerprint = core::fingerprint_of_parts({definition, data});
    auto const rows = postgres::run_in(tx, queries::start{.scope = first.saga.scope,
                                                          .key = first.saga.key,
                                                          .definition = first.definition,
                                                          .version = version,
                                                          .data = data,
                                                          .itinerary = first.itinerary.text(),
                                                          .fingerprint = postgres::bytes{fingerprint},
                                                          .destination = message.destination,
                                                          .type = message.type,
                                                          .payload = postgres::bytes{data},
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
