#include "postgres/transaction_text.hpp"

#include "core/reasons.hpp"
#include "core/text.hpp"
#include "postgres/header_json.hpp"
#include "postgres/literal.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace skald::postgres {
namespace {

ports::claim_result parse_claim_result(std::string_view text)
{
    constexpr std::array<std::string_view, 8> names{"fresh",    "retry",     "duplicate", "in_flight",
                                                    "mismatch", "cancelled", "paused",    "closed"};
    auto const it = std::find(names.begin(), names.end(), text);
    if (it == names.end()) throw std::logic_error{"skald.claim gave the unknown result " + std::string{text}};
    return static_cast<ports::claim_result>(it - names.begin());
}

ports::cancel_cause parse_cause(std::string_view text)
{
    constexpr std::array<std::string_view, 5> names{"", "operator", "deadline", core::nothing_to_undo, "home"};
    auto const it = std::find(names.begin(), names.end(), text);
    if (it == names.end()) throw std::logic_error{"skald.claim gave the unknown cause " + std::string{text}};
    return static_cast<ports::cancel_cause>(it - names.begin());
}

bool any_deadline(std::span<ports::claim_item const> items)
{
    return std::ranges::any_of(items, [](ports::claim_item const& item) { return item.deadline.has_value(); });
}

std::string text_literal(std::string_view text)
{
    return literal(core::storable_text(text));
}

std::string write(ports::new_saga const& s)
{
    return execute("insert_saga", {literal(s.saga.scope), literal(s.saga.key), literal(s.definition),
                                   literal(std::int64_t{s.version}), literal(s.data), literal(s.itinerary),
                                   s.deadline ? literal(core::write_instant(*s.deadline)) : "NULL"});
}

std::string write(ports::new_record const& r)
{
    return execute("insert_record",
                   {literal(r.saga.scope), literal(r.saga.key), literal(r.step), bytes_literal(r.fingerprint)});
}

std::string write(ports::step_record const& r)
{
    return execute("record_step",
                   {literal(r.saga.scope), literal(r.saga.key), literal(r.step), literal(core::name_of(r.status)),
                    literal(std::int64_t{r.attempts}), literal(std::int64_t{r.snoozes_added}),
                    r.error.empty() ? "NULL" : text_literal(r.error), r.forget_fingerprint ? "true" : "false"});
}

std::string write(core::command const& order)
{
    return execute("take_control", {literal(order.text)});
}

std::string write(ports::saga_change const& c)
{
    return execute("advance", {literal(c.saga.scope), literal(c.saga.key), literal(core::name_of(c.state)),
                               c.reason.empty() ? "NULL" : text_literal(c.reason)});
}

std::string write(ports::enqueued const& e)
{
    auto const& m = e.message;
    return execute("enqueue",
                   {literal(e.aggregate_type), literal(e.aggregate_id), literal(m.type), bytes_literal(m.body),
                    literal(e.scope), literal(m.id), literal(write_headers(m.headers)), literal(m.content_type),
                    literal(m.destination), literal(std::int64_t{(e.delay + e.grace_period).count()}),
                    e.row ? literal(*e.row) : "NULL", e.if_unrouted.empty() ? "NULL" : literal(e.if_unrouted)});
}

// Many in one statement, which costs a fraction of one statement each, and locks the rows in one order.
std::string write_sagas(std::vector<ports::saga_change> const& all)
{
    if (all.empty()) return {};
    if (all.size() == 1) return write(all.front());
    std::vector<std::string> scopes, keys, states, reasons;
    for (auto const& c : all) {
        scopes.push_back(c.saga.scope);
        keys.push_back(c.saga.key);
        states.emplace_back(core::name_of(c.state));
        reasons.push_back(core::storable_text(c.reason));
    }
    return execute("advance_many",
                   {array_literal(scopes), array_literal(keys), array_literal(states), array_literal(reasons)});
}

// The same for messages.
std::string write_together(std::vector<ports::enqueued> const& all)
{
    std::vector<std::string> types, ids, definitions, keys, bodies, scopes, headers, content_types, destinations, rows,
        policies;
    std::vector<std::int64_t> delays;
    for (auto const& e : all) {
        definitions.push_back(e.aggregate_type);
        keys.push_back(e.aggregate_id);
        types.push_back(e.message.type);
        bodies.push_back(e.message.body);
        scopes.push_back(e.scope);
        ids.push_back(e.message.id);
        headers.push_back(write_headers(e.message.headers));
        content_types.push_back(e.message.content_type);
        destinations.push_back(e.message.destination);
        delays.push_back((e.delay + e.grace_period).count());
        rows.push_back(e.row ? std::to_string(*e.row) : "");
        policies.emplace_back(e.if_unrouted);
    }
    return execute("enqueue_many", {array_literal(definitions), array_literal(keys), array_literal(types),
                                    bytes_array_literal(bodies), array_literal(scopes), array_literal(ids),
                                    array_literal(headers), array_literal(content_types), array_literal(destinations),
                                    array_literal(delays, "bigint"), array_literal(rows), array_literal(policies)});
}

std::string write_messages(std::vector<ports::enqueued> const& all)
{
    return all.empty() ? std::string{} : all.size() == 1 ? write(all.front()) : write_together(all);
}

std::string write(ports::parked_delivery const& p)
{
    // The same delivery again is the same parked row: anything that would make it a different one is in here.
    auto identity = p.message.id + '\n' + p.message.type + '\n' + p.message.content_type;
    for (auto const& [name, value] : p.message.headers) identity += '\n' + name + ": " + value;
    auto const fingerprint = core::fingerprint_of_parts({identity, p.message.body});
    return execute("park", {text_literal(p.saga.scope), text_literal(p.saga.key), text_literal(p.step),
                            literal(p.reason), text_literal(p.error), text_literal(p.message.id),
                            text_literal(p.message.type), text_literal(p.message.content_type),
                            bytes_literal(p.message.body), literal(write_headers(p.message.headers)),
                            literal(std::int64_t{p.attempts}), bytes_literal(fingerprint)});
}

std::string write(ports::stored_response const& r)
{
    return execute("store_response",
                   {literal(r.saga.scope), literal(r.saga.key), literal(std::int64_t{r.status}),
                    literal(r.content_type), literal(write_fields(r.headers)), bytes_literal(r.body)});
}

std::string write(ports::contention const& c)
{
    return execute("record_contention", {literal(c.step), literal(static_cast<std::int64_t>(c.lanes)),
                                         literal(static_cast<std::int64_t>(c.batch)), c.takes_turns ? "true" : "false",
                                         literal(c.conflicts), literal(c.reason)});
}

template <class Values>
std::string write_each(Values const& values)
{
    std::string text;
    for (auto const& value : values) text += write(value);
    return text;
}

// JSON arrays from another service, each for the function that takes it in.
std::string record_each(std::string_view function, std::vector<std::string> const& arrays)
{
    std::string text;
    for (auto const& array : arrays) text += execute(function, {literal(array)});
    return text;
}

}  // namespace

std::string claim_text(std::span<ports::claim_item const> items, std::optional<std::chrono::milliseconds> wait)
{
    std::vector<std::string> scopes, keys, steps, fingerprints, homes;
    std::vector<std::int64_t> fencing_tokens;
    std::vector<bool> past_pivot;
    std::vector<std::string> deadlines;
    for (auto const& item : items) {
        scopes.push_back(item.saga.scope);
        keys.push_back(item.saga.key);
        steps.push_back(item.step);
        fingerprints.push_back(item.fingerprint);
        fencing_tokens.push_back(item.fencing_token);
        past_pivot.push_back(item.past_pivot);
        homes.push_back(item.home);
        deadlines.push_back(item.deadline ? core::write_instant(*item.deadline) : "infinity");
    }
    return execute("claim", {array_literal(scopes), array_literal(keys), array_literal(steps),
                             bytes_array_literal(fingerprints), array_literal(fencing_tokens, "integer"),
                             array_literal(past_pivot), wait ? literal(wait->count()) : "NULL",
                             any_deadline(items) ? array_literal(deadlines) : "NULL", array_literal(homes)});
}

std::string claim_request_text(ports::claim_item const& item, std::optional<std::chrono::milliseconds> wait)
{
    return execute("claim_request", {literal(item.saga.scope), literal(item.saga.key), bytes_literal(item.fingerprint),
                                     wait ? literal(wait->count()) : "NULL"});
}

ports::claim_answer read_claim(pqxx::row const& row)
{
    return {parse_claim_result(row[1].c_str()), row[2].as<int>(), row[3].as<bool>(), parse_cause(row[4].c_str()),
            row[5].c_str()};
}

std::optional<ports::stored_response> read_stored_response(pqxx::row const& row, core::saga_id const& saga)
{
    if (row[10].is_null()) return {};
    return ports::stored_response{saga, row[10].as<int>(), row[11].c_str(), read_fields(row[12].c_str()),
                                  core::from_hex(row[13].c_str())};
}

// Always in this order, guard before saga before outbox, so that two transactions can't deadlock (traps G22).
std::string changes_text(ports::changes const& what)
{
    return write_each(what.new_records) + write_each(what.records) + write_each(what.sagas) +
           record_each("record_progress", what.progress) + record_each("record_ended", what.ended) +
           record_each("record_expired", what.expired) + write_each(what.commands) + write_sagas(what.saga_changes) +
           (what.response ? write(*what.response) : std::string{}) + write_each(what.parked) +
           write_messages(what.messages) + write_each(what.contention);
}

}  // namespace skald::postgres
