#include "entry/request_guard.hpp"

#include "core/failpoint.hpp"
#include "entry/guard_responses.hpp"
#include "http/chars.hpp"
#include "http/prefer.hpp"
#include "http/problem.hpp"
#include "http/response_head.hpp"
#include "ports/body_store.hpp"
#include "runtime/consequences.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <array>

namespace skald::entry_detail {
namespace {

using namespace std::chrono_literals;

// Long enough for the insert itself, short enough that no lane waits for the first request to end: it responds 409. The
// second is for what is no key in flight, such as a vacuum that truncates the table: it lets go within 20 ms of a wait.
constexpr auto in_flight_wait = 10ms, second_wait = 30ms;

// A transaction that lost its connection during COMMIT is resolved by going through the guard again.
constexpr int tries_max = 3;

// How long a client waits for that. It retries with the same key; the guard then knows the outcome, or still does not.
constexpr auto resolve_longest = 10s;

// Unauthorized, or not now: a retry may get a different response, so this one must not be stored.
bool may_change(route const& by, http::response const& answer)
{
    constexpr std::array passing{401, 403, 408, 409, 425, 429};
    if (answer.status == 404 && by.is_found_later) return true;
    return !answer.is_final && std::ranges::find(passing, answer.status) != passing.end();
}

}  // namespace

struct request_guard::call
{
    http::request const& received;
    route const& by;
    core::saga_id const& id;
    bool client_has_key;
    core::fingerprint fingerprint;
    request_trace const& trace;
    front_mark at_front;
    bool is_alone;  // the front alone remembers it
    std::optional<in_flight_requests::mark> mark{};
    std::string epoch{};   // the database's, at the last claim
    bool in_flight{};      // the first request with this key is still in flight
    bool in_doubt{};       // an earlier attempt may have committed
    bool was_contended{};  // others had the rows of the last attempt
    bool committed{};
    std::string why{};  // the last attempt had no end

    bool may_have_effect() const { return in_doubt || committed; }  // then the client is not told that it had none
    bool is_guarded() const { return by.key != http::idempotency::off && !is_alone; }
    ports::claim_item item() const { return {id, "", fingerprint, 1, false}; }
};

core::fingerprint fingerprint_of(http::request const& r)
{
    return core::fingerprint_of_parts({r.method, r.target.substr(0, r.target.find('?')), r.query, r.body});
}

trace_context trace_of(http::request const& r)
{
    std::string traceparent, tracestate;
    int count = 0;
    for (auto const& [name, value] : r.headers) {
        if (http::equal_ignoring_case(name, core::header::traceparent)) traceparent = value, ++count;
        if (http::equal_ignoring_case(name, core::header::tracestate))
            tracestate.append(tracestate.empty() ? "" : ",").append(value);
    }
    return count == 1 ? core::valid_trace(traceparent, tracestate) : trace_context{};
}

std::optional<http::reply> find_known(known_requests& known, guarded_request const& r)
{
    auto const& [message, to] = r;
    if (!to.client_has_key) return {};
    bool const has_ended = known.responses.has(to.id);
    if (!has_ended && !known.in_flight.has(to.id)) return {};  // the usual case, which saves a look at the body
    auto const fingerprint = fingerprint_of(message);
    if (has_ended) {
        auto const met = known.responses.find({to.id, fingerprint, known.epochs.last()});
        if (met.what == ports::found::kind::result) return replayed(met.response->answer);
        if (met.what == ports::found::kind::mismatch) return key_reused();
    }
    auto const is_same = known.in_flight.find(to.id, fingerprint);
    if (!is_same) return {};
    return *is_same ? http::reply{in_flight(), http::wait_preference(message).value_or(0s)} : key_reused();
}

request_guard::request_guard(std::string service, ports::store& store, known_requests& known,
                             runtime::backlog const& backlog, runtime::memory_source& out, core::logger& log,
                             runtime::registry const* steps)
    : service_{std::move(service)}, store_{store}, known_{known}, backlog_{backlog}, out_{out}, log_{log}, steps_{steps}
{}

http::reply request_guard::respond(guarded_request const& r, request_trace const& trace, front_mark mark)
{
    auto const& [message, to] = r;
    bool const has_key = to.by->key != http::idempotency::off;
    auto const fingerprint = has_key ? fingerprint_of(message) : core::fingerprint{};
    call c{message, *to.by, to.id, to.client_has_key, fingerprint, trace, std::move(mark), known_.is_alone(*to.by)};
    auto made = respond_whatever_breaks(c);
    if (c.in_doubt) c.at_front.leave();  // it may be under way still
    return {std::move(made), c.in_flight ? http::wait_preference(message).value_or(0s) : 0s};
}

http::response request_guard::respond_whatever_breaks(call& c)
try {
    return try_until_known(c);
}
catch (http::body_error const& error) {
    store_.rollback();
    if (c.may_have_effect()) return unknown(c);
    return http::problem(http::problem_type::body, error.what());
}
catch (ports::fault const& met) {
    store_.rollback();
    log_failure(c, core::severity::warning, met.what());
    if (c.may_have_effect()) return unknown(c);
    if (met.kind == ports::fault_kind::connection_lost) return database_away(c.client_has_key);
    if (met.kind == ports::fault_kind::transaction_ended)
        return http::problem(500, "the service ended its own transaction; part of the request may have taken effect");
    return http::problem(500, "the request could not be served; it had no effect");
}
// The stored response can't be read, and it is the outcome: there is no other.
catch (ports::body_fault const& error) {
    store_.rollback();
    log_failure(c, core::severity::error, error.what());
    return unknown(c);
}
catch (std::exception const& error) {
    store_.rollback();
    log_failure(c, core::severity::error, error.what());
    if (c.may_have_effect()) return unknown(c);
    return http::problem(500, "the request could not be served; it had no effect");
}

void request_guard::log_failure(call const& c, core::severity level, std::string_view error) const
{
    log_.write(level, "entry.failed",
               {{"route", c.by.method + ' ' + c.by.pattern}, {"key", c.id.key}, {"error", error}});
}

http::response request_guard::unknown(call const& c)
{
    return c.is_alone ? may_be_repeated() : outcome_unknown(c.client_has_key);
}

http::response request_guard::try_until_known(call& c)
{
    auto const until = std::chrono::steady_clock::now() + resolve_longest;
    for (int tries = 0; tries < tries_max && (tries == 0 || std::chrono::steady_clock::now() < until); ++tries) {
        if (tries > 0) log_.warning("entry.tried_again", {{"key", c.id.key}, {"error", c.why}});
        if (auto done = try_once(c)) return *std::move(done);
        if (c.in_doubt && !c.is_guarded()) break;  // another attempt could execute it twice
    }
    log_failure(c, core::severity::warning, c.why);
    if (c.may_have_effect()) return unknown(c);
    return c.was_contended ? others_were_in_the_way() : database_away(c.client_has_key);
}

// Nothing: the outcome of the transaction is unknown, or it was rolled back through no fault of the request.
std::optional<http::response> request_guard::try_once(call& c)
try {
    return c.is_guarded() ? claim_and_run(c) : run_unguarded(c);
}
catch (ports::fault const& met) {
    c.in_doubt = c.in_doubt || met.kind == ports::fault_kind::in_doubt;
    if (met.kind == ports::fault_kind::in_doubt) known_.doubts.in_doubt.add();
    c.was_contended = met.kind == ports::fault_kind::contended || met.kind == ports::fault_kind::lock_timeout;
    // The connection may be left over from before a restart of the server: try to get a new one.
    if (met.kind == ports::fault_kind::connection_lost) store_.connect();
    else if (met.kind == ports::fault_kind::transaction_ended || met.kind == ports::fault_kind::broken) throw;
    c.why = met.what();
    return std::nullopt;
}

std::optional<http::response> request_guard::claim_and_run(call& c)
{
    auto timed = c.trace.span.child("claim");
    auto met = claim(c, in_flight_wait);
    if (met.claimed.result == ports::claim_result::in_flight) {
        store_.rollback();
        met = claim(c, second_wait);
    }
    timed.end();
    bool const is_fresh = met.claimed.result == ports::claim_result::fresh;
    if (c.client_has_key && !c.in_doubt) known_.duplicates.saw(!is_fresh);
    if (!is_fresh) return explain_unclaimed(c, std::move(met));
    if (c.in_doubt) known_.doubts.had_rolled_back.add();
    c.in_doubt = false;  // a committed earlier attempt would conflict with this claim: it was rolled back
    if (backlog_.is_over()) {
        store_.rollback();
        return refuse_for_now();
    }
    c.mark = known_.in_flight.enter(c.id, c.fingerprint);
    return run(c);
}

// What commits after it has the epoch in which it began: if that ends meanwhile, a copy of its response is void.
ports::request_claim request_guard::claim(call& c, std::optional<std::chrono::milliseconds> wait)
{
    auto const asked = epoch_watch::clock::now();
    auto met = store_.begin_request(c.item(), wait);
    known_.epochs.saw(met.epoch, store_.claimed_at(), asked);
    c.epoch = met.epoch;
    return met;
}

// Another request holds or held the key; or this request did, in an earlier attempt.
http::response request_guard::explain_unclaimed(call& c, ports::request_claim&& met)
{
    store_.rollback();
    if (c.in_doubt && met.claimed.result == ports::claim_result::duplicate) known_.doubts.had_committed.add();
    if (met.claimed.result == ports::claim_result::duplicate) return replay(c, std::move(met));
    if (met.claimed.result == ports::claim_result::mismatch) return met.answer ? key_reused() : used_elsewhere();
    // The blocking transaction may well be this request's own.
    if (c.in_doubt) return unknown(c);
    c.in_flight = true;
    return in_flight();
}

// The response, the saga, its first step's record and the message to the next: all or nothing, before any reply.
http::response request_guard::run(call& c)
{
    SKALD_FAILPOINT("entry.claimed");
    http::request_context ctx{store_.unit(), c.received, c.id.scope, c.id.key, c.trace.passed_on};
    auto answer = call_handler(c, ctx);
    if (leaves_nothing(c, answer)) return answer;
    if (ctx.refused()) return store_refusal(c, std::move(answer));

    ports::changes changes;
    changes.response = {c.id, answer.status, answer.content_type, answer.headers, answer.body};
    add_sagas(changes, c, ctx);
    commit(c, ctx, std::move(changes));
    return answer;
}

// No record is kept here: the transaction commits before the client gets its response, and that is all. Where the front
// alone remembers the request, it has the response before the client does; if it has not, the request may run again.
http::response request_guard::run_unguarded(call& c)
{
    store_.begin({});
    http::request_context ctx{store_.unit(), c.received, c.id.scope, c.is_alone ? c.id.key : "", c.trace.passed_on};
    auto answer = call_handler(c, ctx);
    if (leaves_nothing(c, answer)) return answer;
    commit(c, ctx, {});
    if (c.is_alone && c.at_front) c.at_front.keep({c.id, c.fingerprint, answer, std::string{epoch_of_the_front}});
    return answer;
}

// Without a key the next request is a different one, and there is no response to store for it.
bool request_guard::leaves_nothing(call const& c, http::response const& answer)
{
    return answer.status >= 500 || (c.by.key != http::idempotency::off && may_change(c.by, answer));
}

// The handler's response. If it is not an outcome, everything the handler did is rolled back.
http::response request_guard::call_handler(call const& c, http::request_context& ctx)
{
    http::response answer;
    try {
        auto const timed = c.trace.span.child("handle");
        answer = c.by.handler(ctx);
        if (c.by.check && steps_ != nullptr && answer.status == 202) c.by.check(ctx, *steps_);
        SKALD_FAILPOINT("entry.handler_ran");
    }
    catch (http::body_error const&) {
        throw;
    }
    catch (...) {
        auto const met = store_.classify_current();
        bool const was_ended = store_.state() == ports::transaction_state::ended;
        store_.rollback();
        throw !was_ended ? met : ports::fault{ports::fault_kind::transaction_ended, met.what()};
    }
    refuse_sagas(c, ctx, answer);
    if (leaves_nothing(c, answer)) store_.rollback();
    // A response that can't be sent must not be stored either: every retry would replay it.
    else if (auto const flaw = http::flaw_of(answer); !flaw.empty())
        throw std::logic_error{"the handler's answer: " + std::string{flaw}};
    return answer;
}

// Whatever the service's settings are: they decide how often a handler may run, and not whether it works. After a
// refusal nothing remains, so a response that says otherwise would be stored, and be a lie each time.
void request_guard::refuse_sagas(call const& c, http::request_context const& ctx, http::response const& answer) const
{
    if (ctx.refused() && !ctx.started().empty())
        throw std::logic_error{"a request starts one saga: after a start() whose first step was refused nothing "
                               "remains, so there is no second one"};
    if (ctx.refused() && answer.status < 300)
        throw std::logic_error{"the saga's first step was refused, so nothing remains, and the handler answers " +
                               std::to_string(answer.status) + ": look at what start() returns"};
    if (c.by.key == http::idempotency::may_repeat && (!ctx.started().empty() || ctx.refused()))
        throw std::logic_error{"a handler that may be repeated starts no saga: a saga is started once"};
    std::ranges::for_each(ctx.started(), [this](auto const& saga) { refuse_unhosted(saga); });
}

// The first step rejected: nothing that the handler wrote remains, but its response is the outcome and is stored.
// Between the rollback and the second claim any request may take the key; the one that does is the one that counts.
http::response request_guard::store_refusal(call& c, http::response answer)
{
    store_.rollback();
    c.mark.reset();
    auto met = claim(c, {});
    if (met.claimed.result != ports::claim_result::fresh) return explain_unclaimed(c, std::move(met));
    c.mark = known_.in_flight.enter(c.id, c.fingerprint);
    ports::changes changes;
    changes.response = {c.id, answer.status, answer.content_type, answer.headers, answer.body};
    out_.commit(store_, changes, [&c] { c.committed = true; });
    cache(c, changes.response, store_.claimed_at());
    return answer;
}

void request_guard::add_sagas(ports::changes& changes, call const& c, http::request_context const& ctx) const
{
    for (auto const& saga : ctx.started()) {
        core::envelope first;
        first.saga = c.id;
        first.definition = saga.definition;
        first.version = saga.version;
        first.itinerary = core::make_itinerary(saga.plan);
        first.home = service_;
        first.trace = ctx.trace();
        if (saga.deadline.count() > 0) first.saga_deadline = store_.claimed_at() + saga.deadline;
        changes.sagas.push_back({c.id,
                                 saga.definition,
                                 saga.version,
                                 saga.data,
                                 first.itinerary.text(),
                                 first.saga_deadline,
                                 {},
                                 saga.attributes});

        if (saga.first_ran.empty()) {
            changes.messages.push_back(runtime::to_enqueue(first, saga.data));
            continue;
        }
        changes.new_records.push_back({c.id, saga.first_ran, core::fingerprint_of(saga.data)});
        runtime::add_published(changes, c.id, saga.definition, first.key().text(), ctx.trace(), saga.published);
        auto const then = core::next(first.itinerary, core::event::completed);
        if (then.next) changes.messages.push_back(runtime::to_enqueue(first.at(*then.next), saga.data_after));
        else changes.saga_changes.push_back({c.id, then.saga, {}});
    }
}

void request_guard::commit(call& c, http::request_context const& ctx, ports::changes changes)
{
    runtime::add_published(changes, c.id, "entry", c.id.key + ":entry", ctx.trace(), ctx.published());
    SKALD_FAILPOINT("entry.before_commit");
    auto const timed = c.trace.span.child("commit");
    out_.commit(store_, changes, [&c] {
        c.committed = true;
        SKALD_FAILPOINT("entry.committed");
    });
    cache(c, changes.response, store_.claimed_at());
}

http::response request_guard::replay(call& c, ports::request_claim&& met)
{
    auto& stored = met.answer;
    if (!stored) return used_elsewhere();
    // It has had its effect, also where its response can't be read.
    c.committed = true;
    if (stored->kept) stored->body = store_.read_body(*stored->kept);
    cache(c, stored, met.stored_at);
    return replayed(
        {stored->status, std::move(stored->content_type), std::move(stored->headers), std::move(stored->body)});
}

// Caches what is stored and can be asked for again; at the front, in a known epoch, until a purge may delete it.
void request_guard::cache(call& c, std::optional<ports::stored_response> const& stored, core::instant stored_at)
{
    if (!stored || stored->kept || !c.client_has_key) return;  // a large one would push out all others
    ports::kept_response kept{c.id,
                              c.fingerprint,
                              {stored->status, stored->content_type, stored->headers, stored->body},
                              c.epoch,
                              stored_at + ports::kept_max};
    if (known_.front != nullptr && keeps_responses(known_.way) && !c.epoch.empty() &&
        kept.until > store_.claimed_at() && (c.at_front || !known_.front_rests())) {
        if (c.at_front) c.at_front.keep(kept);
        else known_.front->keep(kept);
    }
    known_.responses.keep(std::move(kept));
}

}  // namespace skald::entry_detail
