#include "postgres/transaction_text.hpp"

#include "core/assert.hpp"
#include "core/instant.hpp"
#include "core/reasons.hpp"
#include "core/text.hpp"
#include "postgres/header_json.hpp"
#include "postgres/literal.hpp"
#include "skald_queries.hpp"

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

std::optional<std::string> text_of(std::optional<core::body_reference> const& kept)
{
    return kept ? std::optional{kept->text()} : std::nullopt;
}

std::string write(ports::new_saga const& s)
{
    auto const row = execute(queries::insert_saga{.scope = s.saga.scope,
                                                  .key = s.saga.key,
                                                  .definition = s.definition,
                                                  .version = s.version,
                                                  .data = s.data,
                                                  .itinerary = s.itinerary,
                                                  .deadline = s.deadline,
                                                  .kept = text_of(s.kept)});
    if (s.attributes.empty()) return row;
    return row + execute(queries::add_attributes{.scope = s.saga.scope, .key = s.saga.key, .attributes = s.attributes});
}

std::string write(ports::new_record const& r)
{
    return execute(queries::insert_record{
        .scope = r.saga.scope, .key = r.saga.key, .step = r.step, .fingerprint = bytes{r.fingerprint}});
}

std::string write(ports::step_record const& r)
{
    return execute(queries::record_step{.status = core::name_of(r.status),
                                        .attempts = r.attempts,
                                        .snoozes_added = r.snoozes_added,
                                        .error = null_if_empty(core::storable_text(r.error)),
                                        .drop_fingerprint = r.drop_fingerprint,
                                        .scope = r.saga.scope,
                                        .key = r.saga.key,
                                        .step = r.step});
}

std::string write(ports::new_started const& s)
{
    auto const& m = s.message;
    auto const unknown_after =
        s.kind == ports::started_kind::call ? std::optional{s.unknown_after} : std::nullopt;  // no wait is in doubt
    return execute(queries::start_step{.scope = s.saga.scope,
                                       .key = s.saga.key,
                                       .step = s.step,
                                       .kind = ports::name_of(s.kind),
                                       .dependency = s.dependency,
                                       .lease = s.lease,
                                       .unknown_after = unknown_after,
                                       .message_id = m.id,
                                       .type = m.type,
                                       .content_type = m.content_type,
                                       .body = bytes{m.body},
                                       .headers = write_headers(m.headers),
                                       .due_in = s.due_in,
                                       .deadline = s.deadline});
}

std::string write(ports::started_id const& s)
{
    return execute(queries::end_started{.scope = s.saga.scope, .key = s.saga.key, .step = s.step, .fence = s.fence});
}

std::string write(ports::started_release const& r)
{
    return release_text(r);
}

std::string write(core::command const& c)
{
    return execute(queries::take_control{.command = c.text});
}

std::string write(ports::saga_change const& c)
{
    return execute(queries::advance{.scope = c.saga.scope,
                                    .key = c.saga.key,
                                    .status = core::name_of(c.state),
                                    .reason = null_if_empty(core::storable_text(c.reason))});
}

std::string write(ports::enqueued const& e)
{
    auto const& m = e.message;
    return execute(queries::enqueue{.row = e.row,
                                    .definition = e.aggregate_type,
                                    .key = e.aggregate_id,
                                    .type = m.type,
                                    .payload = bytes{m.body},
                                    .scope = e.scope,
                                    .message_id = m.id,
                                    .headers = write_headers(m.headers),
                                    .content_type = m.content_type,
                                    .destination = m.destination,
                                    .delay = e.delay + e.grace_period,
                                    .if_unrouted = null_if_empty(e.if_unrouted)});
}

// Many in one statement, which costs a fraction of one statement each, and locks the rows in one order.
std::string write_sagas(std::vector<ports::saga_change> const& all)
{
    if (all.empty()) return {};
    if (all.size() == 1) return write(all.front());
    std::vector<std::string> scopes, keys, statuses, reasons;
    for (auto const& c : all) {
        scopes.push_back(c.saga.scope);
        keys.push_back(c.saga.key);
        statuses.emplace_back(core::name_of(c.state));
        reasons.push_back(core::storable_text(c.reason));
    }
    return execute(queries::advance_many{.scopes = scopes, .keys = keys, .statuses = statuses, .reasons = reasons});
}

// The same for messages.
std::string write_together(std::vector<ports::enqueued> const& all)
{
    std::vector<std::string> types, ids, definitions, keys, scopes, headers, content_types, destinations, rows,
        policies;
    std::vector<bytes> bodies;
    std::vector<std::int64_t> delays;
    for (auto const& e : all) {
        definitions.push_back(e.aggregate_type);
        keys.push_back(e.aggregate_id);
        types.push_back(e.message.type);
        bodies.push_back({e.message.body});
        scopes.push_back(e.scope);
        ids.push_back(e.message.id);
        headers.push_back(write_headers(e.message.headers));
        content_types.push_back(e.message.content_type);
        destinations.push_back(e.message.destination);
        delays.push_back((e.delay + e.grace_period).count());
        rows.push_back(e.row ? std::to_string(*e.row) : "");
        policies.emplace_back(e.if_unrouted);
    }
    return execute(queries::enqueue_many{.definitions = definitions,
                                         .keys = keys,
                                         .types = types,
                                         .payloads = bodies,
                                         .scopes = scopes,
                                         .message_ids = ids,
                                         .headers = headers,
                                         .content_types = content_types,
                                         .destinations = destinations,
                                         .delays = delays,
                                         .rows = rows,
                                         .if_unrouted = policies});
}

std::string write_messages(std::vector<ports::enqueued> const& all)
{
    return all.empty() ? std::string{} : all.size() == 1 ? write(all.front()) : write_together(all);
}

template <class Statement>
std::string write_parked(ports::parked_delivery const& p)
{
    auto const& m = p.message;
    // The same delivery again is the same parked row: anything that would make it a different one is in here.
    auto identity = m.id + '\n' + m.type + '\n' + m.content_type;
    for (auto const& [name, value] : m.headers) identity += '\n' + name + ": " + value;
    auto const fingerprint = core::fingerprint_of_parts({identity, m.body});
    return execute(Statement{.scope = core::storable_text(p.saga.scope),
                             .key = core::storable_text(p.saga.key),
                             .step = core::storable_text(p.step),
                             .reason = p.reason,
                             .error = core::storable_text(p.error),
                             .message_id = core::storable_text(m.id),
                             .type = core::storable_text(m.type),
                             .content_type = core::storable_text(m.content_type),
                             .body = bytes{m.body},
                             .headers = write_headers(m.headers),
                             .attempts = p.attempts,
                             .fingerprint = bytes{fingerprint},
                             .handler = p.handler});
}

std::string write(ports::parked_delivery const& p)
{
    return p.is_unreadable ? write_parked<queries::park_unreadable>(p) : write_parked<queries::park>(p);
}

std::string write(ports::stored_response const& r)
{
    return execute(queries::store_response{.scope = r.saga.scope,
                                           .key = r.saga.key,
                                           .status_code = r.status,
                                           .content_type = r.content_type,
                                           .headers = write_fields(r.headers),
                                           .body = bytes{r.body},
                                           .kept = text_of(r.kept)});
}

std::string write(ports::stored_reply const& r)
{
    return execute(queries::store_reply{.scope = r.message.scope,
                                        .key = r.message.key,
                                        .handler = r.handler,
                                        .body = bytes{r.body},
                                        .kept = text_of(r.kept)});
}

std::string write(ports::repeated_reply const& r)
{
    auto const& m = r.envelope;
    return execute(queries::repeat_reply{.destination = m.destination,
                                         .type = m.type,
                                         .message_id = m.id,
                                         .headers = write_headers(m.headers),
                                         .scope = r.message.scope,
                                         .key = r.message.key,
                                         .handler = r.handler});
}

std::string write(ports::contention const& c)
{
    return execute(queries::record_contention{.step = c.step,
                                              .lanes = c.lanes,
                                              .batch = c.batch,
                                              .takes_turns = c.takes_turns,
                                              .conflicts = c.conflicts,
                                              .reason = c.reason});
}

template <class Values>
std::string write_each(Values const& values)
{
    std::string text;
    for (auto const& value : values) text += write(value);
    return text;
}

// JSON arrays from another service.
std::string write_reports(ports::changes const& what)
{
    std::string text;
    for (auto const& array : what.progress) text += execute(queries::record_progress{.progress = array});
    for (auto const& array : what.ended) text += execute(queries::record_ended{.ended = array});
    for (auto const& array : what.signals) text += execute(queries::take_signals{.signals = array});
    for (auto const& array : what.expired) text += execute(queries::record_expired{.expired = array});
    return text;
}

}  // namespace

std::string release_text(ports::started_release const& r)
{
    return execute(queries::release_started{.scope = r.id.saga.scope,
                                            .key = r.id.saga.key,
                                            .step = r.id.step,
                                            .fence = r.id.fence,
                                            .due_in = r.due_in,
                                            .is_in_doubt = r.is_in_doubt,
                                            .looks = r.looks,
                                            .tries = r.tries,
                                            .answer = r.answer,
                                            .waits_on = r.waits_on,
                                            .is_uncalled = r.is_uncalled,
                                            .is_shown = r.is_shown,
                                            .why = null_if_empty(core::storable_text(r.why))});
}

namespace {

std::string claim_started_text(std::span<ports::claim_item const> items)
{
    std::vector<std::string> scopes, keys, steps;
    std::vector<std::int64_t> fences;
    for (auto const& item : items) {
        SKALD_ASSERT(item.fence);
        scopes.push_back(item.saga.scope);
        keys.push_back(item.saga.key);
        steps.push_back(item.step);
        fences.push_back(*item.fence);
    }
    return execute(queries::claim_started{.scopes = scopes, .keys = keys, .steps = steps, .fences = fences});
}

}  // namespace

std::string claim_text(std::span<ports::claim_item const> items, std::optional<std::chrono::milliseconds> wait)
{
    if (items.front().fence) return claim_started_text(items);
    std::vector<std::string> scopes, keys, steps, homes, deadlines;
    std::vector<bytes> fingerprints;
    std::vector<std::int64_t> fencing_tokens;
    std::vector<bool> past_pivot;
    for (auto const& item : items) {
        scopes.push_back(item.saga.scope);
        keys.push_back(item.saga.key);
        steps.push_back(item.step);
        fingerprints.push_back({item.fingerprint});
        fencing_tokens.push_back(item.fencing_token);
        past_pivot.push_back(item.past_pivot);
        homes.push_back(item.home);
        deadlines.push_back(item.deadline ? core::write_instant(*item.deadline) : "infinity");
    }
    return execute(queries::claim{.scopes = scopes,
                                  .keys = keys,
                                  .steps = steps,
                                  .fingerprints = fingerprints,
                                  .fencing_tokens = fencing_tokens,
                                  .past_pivot = past_pivot,
                                  .key_wait = wait,
                                  .deadlines = any_deadline(items) ? parameter{deadlines} : parameter{std::nullopt},
                                  .homes = homes});
}

std::string claim_request_text(ports::claim_item const& item, std::optional<std::chrono::milliseconds> wait)
{
    return execute(queries::claim_request{
        .scope = item.saga.scope, .key = item.saga.key, .fingerprint = bytes{item.fingerprint}, .key_wait = wait});
}

ports::claim_answer read_claim(pqxx::row const& row)
{
    return {parse_claim_result(row["result"].c_str()), row["attempts"].as<int>(), row["held"].as<bool>(),
            parse_cause(row["cause"].c_str()), row["reason"].c_str()};
}

ports::request_claim read_request_claim(pqxx::row const& row, core::saga_id const& saga)
{
    ports::request_claim met{.claimed = read_claim(row), .answer = {}, .epoch = row["epoch"].c_str()};
    if (row["status_code"].is_null()) return met;
    met.answer = ports::stored_response{saga,
                                        row["status_code"].as<int>(),
                                        row["content_type"].c_str(),
                                        read_fields(row["headers"].c_str()),
                                        core::from_hex(row["body"].c_str()),
                                        core::parse_reference(row["kept"].c_str())};
    met.stored_at = core::parse_instant(row["stored_at"].c_str()).value();
    return met;
}

// Always in this order, guard before saga before outbox, so that two transactions can't deadlock (traps G22).
std::string changes_text(ports::changes const& what)
{
    return write_each(what.new_records) + write_each(what.records) + write_each(what.started) +
           write_each(what.settled) + write_each(what.released) + write_each(what.sagas) + write_reports(what) +
           write_each(what.commands) + write_sagas(what.saga_changes) +
           (what.response ? write(*what.response) : std::string{}) + write_each(what.replies) +
           write_each(what.repeated) + write_each(what.parked) + write_messages(what.messages) +
           write_each(what.contention);
}

}  // namespace skald::postgres
