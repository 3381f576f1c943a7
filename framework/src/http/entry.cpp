#include "http/entry.hpp"

#include "core/failpoint.hpp"
#include "core/text.hpp"
#include "http/idempotency_key.hpp"
#include "http/problem.hpp"
#include "http/response_head.hpp"
#include "http/target.hpp"
#include "runtime/hand_over.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <array>

namespace skald::http {
namespace {

using namespace std::chrono_literals;

// Long enough for the insert itself, short enough that nobody waits for the first request to end: it answers 409.
constexpr auto in_flight_wait = 10ms;

// A transaction that lost its connection while it committed is settled by going through the guard again.
constexpr int tries_max = 3;

// How long a client waits for that. It asks again with the same key, and the guard knows by then, or still says so.
constexpr auto settle_longest = 10s;

// A broker that was away long enough to fill the outbox needs longer than a moment to empty it.
constexpr auto backlog_wait = 5s;

// What a stored answer keeps of its headers. Cookies and the like belong to one connection, not to the outcome.
constexpr std::array<std::string_view, 6> kept_headers{"location", "link", "etag", "content-language", "last-modified",
                                                       "retry-after"};

bool is_same_name(std::string_view a, std::string_view b)
{
    auto const lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return std::ranges::equal(a, b, {}, lower, lower);
}

bool is_kept(std::string_view name)
{
    return std::ranges::any_of(kept_headers, [&](std::string_view kept) { return is_same_name(kept, name); });
}

// The path as it was sent: decoded, "/a%2Fb/c" and "/a/b%2Fc" would look alike.
core::fingerprint fingerprint_of(request const& r, std::string_view route)
{
    return core::fingerprint_of_parts({r.method, route, r.target.substr(0, r.target.find('?')), r.query, r.body});
}

response try_again_later(int status, std::string_view type, std::string_view detail)
{
    return with_retry_after(problem(status, type, {}, detail), 1s);
}

// Never "failed": it may have committed, or yet commit.
response outcome_unknown()
{
    return try_again_later(503, "outcome-unknown",
                           "it is not known whether the request took effect; send it again with the same key to learn it");
}

}  // namespace

struct entry::call
{
    request const& received;
    entry_handler const& handle;
    core::saga_id id;
    core::fingerprint fingerprint;
    bool in_doubt{};  // an earlier try may have committed
};

entry::entry(std::string service, ports::store& store, runtime::backlog const& backlog, runtime::wakeup& relay,
             core::logger& log)
    : service_{std::move(service)}, store_{store}, backlog_{backlog}, relay_{relay}, log_{log}
{}

response entry::answer(request const& r, std::string_view route, std::string const& scope, entry_handler const& handle)
try {
    auto const key = parse_idempotency_key(r.header("Idempotency-Key"));
    if (!key) return problem(400, "idempotency-key", {}, key.refusal);
    call c{r, handle, {scope, key.value}, fingerprint_of(r, route)};
    committed_ = false;
    auto const until = std::chrono::steady_clock::now() + settle_longest;
    for (int tries = 0; tries < tries_max && (tries == 0 || std::chrono::steady_clock::now() < until); ++tries)
        if (auto done = try_to_answer(c)) return *std::move(done);
    return outcome_unknown();
}
catch (data_error const& error) {
    store_.rollback();
    return problem(400, "body", {}, error.what());
}
catch (ports::fault const& met) {
    store_.rollback();
    log_.warning("entry.failed", {{"error", met.what()}});
    if (met.kind == ports::fault_kind::connection_lost)
        return try_again_later(503, "unavailable", "the database is away; send the request again with the same key");
    if (met.kind == ports::fault_kind::transaction_ended)
        return problem(500, "the service ended its own transaction; part of the request may have taken effect");
    return problem(500, "the request could not be served; it had no effect");
}
catch (std::exception const& error) {
    store_.rollback();
    log_.error("entry.failed", {{"error", error.what()}});
    if (committed_) return outcome_unknown();
    return problem(500, "the request could not be served; it had no effect");
}

// Nothing: it is not known whether the transaction committed, or it was rolled back for no fault of the request's.
std::optional<response> entry::try_to_answer(call& c)
try {
    ports::claim_item const item{c.id, "", c.fingerprint, 1, false};
    auto const claimed = store_.begin(std::array{item}, in_flight_wait).front();
    if (claimed.verdict == ports::verdict::fresh && !backlog_.is_over()) return run(c);
    store_.rollback();
    if (claimed.verdict == ports::verdict::fresh) return refuse_for_now();
    if (claimed.verdict == ports::verdict::duplicate) return replay(c);
    if (claimed.verdict == ports::verdict::mismatch)
        return problem(422, "key-reused", {}, "the Idempotency-Key was used before with another request");
    // The transaction in the way may well be this request's own.
    if (c.in_doubt) return outcome_unknown();
    return try_again_later(409, "in-flight", "a request with this Idempotency-Key is being served; ask again");
}
catch (ports::fault const& met) {
    SKALD_MUTANT("in_doubt_as_failed", if (met.kind == ports::fault_kind::in_doubt) throw);
    c.in_doubt = c.in_doubt || met.kind == ports::fault_kind::in_doubt;
    // The connection may be an old one, from before a restart of the server: worth a new one, if there is one to be had.
    if (met.kind == ports::fault_kind::connection_lost) store_.connect();
    else if (met.kind != ports::fault_kind::in_doubt && met.kind != ports::fault_kind::retry_at_once) throw;
    log_.warning("entry.tried_again", {{"key", c.id.key}, {"error", met.what()}});
    return std::nullopt;
}

// What is accepted must be sent one day: with this much waiting already, a new saga is better not begun.
response entry::refuse_for_now() const
{
    return with_retry_after(problem(503, "backlog", {},
                                    "too many messages wait for the broker; nothing was done, send the "
                                    "request again later"),
                            backlog_wait);
}

response entry::run(call const& c)
{
    request_context ctx{store_.unit(), c.received, c.id.scope, c.id.key};
    response answer;
    SKALD_FAILPOINT("entry.claimed");
    try {
        answer = c.handle(ctx);
        SKALD_FAILPOINT("entry.handler_ran");
    }
    catch (data_error const&) {
        throw;
    }
    catch (...) {
        auto const met = store_.classify_current();
        bool const ours = store_.is_still_claimed();
        store_.rollback();
        throw ours ? met : ports::fault{ports::fault_kind::transaction_ended, met.what()};
    }
    if (answer.status >= 500) {
        store_.rollback();
        return answer;
    }
    // An answer that can't be sent must not be stored either: it would be replayed for ever.
    if (auto const flaw = flaw_of(answer); !flaw.empty()) throw std::logic_error{"the handler's answer: " + std::string{flaw}};
    std::erase_if(answer.headers, [](auto const& header) { return !is_kept(header.first); });
    if (ctx.refused()) return refuse(c, answer).value_or(answer);
    commit(c, ctx, answer);
    return answer;
}

// The first step said no: nothing that the handler wrote remains, but its answer is the outcome, and is stored.
std::optional<response> entry::refuse(call const& c, response const& answer)
{
    store_.rollback();
    ports::claim_item const item{c.id, "", c.fingerprint, 1, false};
    if (!store_.begin(std::array{item}).front().held) {
        store_.rollback();
        return replay(c);
    }
    ports::changes changes;
    changes.response = {c.id, answer.status, answer.content_type, answer.headers, answer.body};
    store_.commit(changes);
    return std::nullopt;
}

response entry::replay(call const& c)
{
    auto const stored = store_.find_response(c.id);
    if (!stored) return problem(409, "key-reused", {}, "the key was used outside of HTTP: there is no answer to replay");
    response again{stored->status, stored->content_type, stored->headers, stored->body};
    again.headers.emplace_back("Idempotency-Replayed", "true");
    return again;
}

// The answer, the saga, its first step's record and the message to the next: all or nothing, before the client hears.
void entry::commit(call const& c, request_context const& ctx, response const& answer)
{
    ports::changes changes;
    changes.response = {c.id, answer.status, answer.content_type, answer.headers, answer.body};
    for (auto const& saga : ctx.started()) {
        core::envelope first;
        first.saga = c.id;
        first.definition = saga.definition;
        first.version = saga.version;
        first.itinerary = core::make_itinerary(saga.plan);
        first.home = service_;
        first.traceparent = c.received.header("traceparent").substr(0, 128);
        if (saga.deadline.count() > 0) first.saga_deadline = store_.claimed_at() + saga.deadline;
        changes.sagas.push_back(
            {c.id, saga.definition, saga.version, saga.data, first.itinerary.text(), first.saga_deadline});

        if (saga.first_ran.empty()) {
            changes.messages.push_back(runtime::to_enqueue(first, saga.data));
            continue;
        }
        changes.new_records.push_back({c.id, saga.first_ran, core::fingerprint_of(saga.data)});
        runtime::add_published(changes, c.id, saga.definition, first.key().text(), saga.published);
        auto const then = core::next(first.itinerary, core::event::completed);
        if (then.next) changes.messages.push_back(runtime::to_enqueue(first.at(*then.next), saga.data_after));
        else changes.saga_changes.push_back({c.id, then.saga, {}});
    }
    runtime::add_published(changes, c.id, "entry", c.id.key + ":entry", ctx.published());
    SKALD_MUTANT("answer_not_stored", changes.response.reset());
    SKALD_FAILPOINT("entry.before_commit");
    store_.commit(changes);
    committed_ = true;  // from here on nobody is told that it had no effect
    SKALD_FAILPOINT("entry.committed");
    if (!changes.messages.empty()) relay_.notify();
}

scope_function scope_from_header(std::string name)
{
    return [name = std::move(name)](request const& r) {
        auto const is_it = [&](auto const& header) { return is_same_name(header.first, name); };
        if (std::ranges::count_if(r.headers, is_it) > 1) throw data_error{"the header " + name + " is given twice"};
        return std::string{r.header(name)};
    };
}

response json_response(int status, nlohmann::json const& body, header_list headers)
{
    return {status, "application/json", std::move(headers), body.dump()};
}

response problem_response(int status, std::string_view detail)
{
    return problem(status, detail);
}

std::string saga_path(std::string_view key)
{
    // Clients take "." and ".." for folders, and leave them out.
    if (key == "." || key == "..") return key == "." ? "/sagas/%2E" : "/sagas/%2E%2E";
    return "/sagas/" + percent_encode_segment(key);
}

}  // namespace skald::http
