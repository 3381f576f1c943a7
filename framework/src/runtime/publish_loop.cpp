#include "runtime/publish_loop.hpp"

#include "core/envelope.hpp"
#include "core/foreign_message.hpp"

#include <algorithm>
#include <utility>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// Heartbeats and the broker's notices have to be read from time to time.
constexpr auto idle_wait = 500ms;

// While the broker is away everything takes the longer way, so its return should be noticed soon.
constexpr auto broker_poll = 50ms;

constexpr std::size_t destinations_max = 1'000;

// A row's count of attempts may be anything; adding one must not overflow.
constexpr int attempts_max = 2'000'000'000;

}  // namespace

publish_loop::publish_loop(publish_options options, publish_source& source, ports::publisher& publisher,
                           stop_flag const& stop, core::logger& log, std::mt19937_64 random)
    : options_{std::move(options)}, source_{source}, publisher_{publisher}, stop_{stop}, log_{log}, random_{random}
{}

void publish_loop::run()
{
    while (!stop_.stopped()) try_to_turn(idle_wait, true);
    await_answers();
    paused_until_ = {};
    source_.wake();
    try_to_turn(0ms, true);
    await_answers();
    source_.close();
}

void publish_loop::await_answers()
{
    auto const until = clock::now() + options_.deadline;
    while (!source_.is_idle() && clock::now() < until) try_to_turn(idle_wait, false);
}

std::size_t publish_loop::drain()
{
    source_.wake();
    paused_until_ = {};
    has_failed_ = false;
    std::size_t all = 0;
    for (bool is_moving = true; is_moving || !source_.is_idle();) {
        auto const [sent, gone] = pass(source_.is_idle() ? 0ms : idle_wait, !has_failed_ && !stop_.stopped());
        is_moving = sent + gone > 0;
        all += gone;
    }
    return all;
}

void publish_loop::try_to_turn(std::chrono::milliseconds max_wait, bool polls)
try {
    pass(max_wait, polls);
}
catch (std::exception const& error) {
    options_.counts->failures.add();
    pause();
    log_availability(error.what());
}

publish_loop::moved publish_loop::pass(std::chrono::milliseconds max_wait, bool polls)
try {
    auto const sent = polls ? send() : 0;
    return {sent, take_answers(max_wait)};
}
catch (...) {
    unanswered_.clear();
    source_.release();
    throw;
}

// While nothing can be sent, nothing is polled: no transaction is open meanwhile. Returns how many were sent.
std::size_t publish_loop::send()
{
    bool const is_available = publisher_.available();
    options_.counts->available.set(is_available ? 1 : 0);
    if (!is_available) log_availability(publisher_.last_error());
    is_open_ = is_available && clock::now() >= paused_until_;
    if (!is_open_) {
        source_.close();
        return 0;
    }
    source_.open(publisher_);
    std::size_t all = 0;
    // After a full batch there may be more: they are sent while this one awaits its confirms.
    for (bool is_full = true; is_full;) {
        auto rows = source_.poll(options_.batch_max);
        is_full = rows.size() == options_.batch_max;
        all += rows.size();
        std::vector<ports::outgoing> messages;
        messages.reserve(rows.size());
        auto const now = clock::now();
        for (auto& [id, attempts, message, is_users, waited] : rows) {
            options_.counts->waited.observe(waited);
            unanswered_[id] = {attempts, message.id,         message.destination, is_users, core::is_reply(message),
                               now,      begin_send(message)};
            // Here and nowhere earlier: rows are also written by other languages and by SQL, which have no key.
            if (options_.sign_with != nullptr) options_.sign_with->sign(message);
            messages.push_back({id, std::move(message)});
        }
        if (!messages.empty()) publisher_.send(messages, options_.deadline);
    }
    return all;
}

// From before it is sent to its confirm. The message keeps the trace with which it was committed, which is this span's
// parent: a relay of another process sends the same bytes.
tracing::open_span publish_loop::begin_send(core::message const& m) const
{
    if (options_.traces == nullptr) return {};
    auto const created = core::parse_traceparent(core::find_header(m.headers, core::header::traceparent).value_or(""));
    if (!created || !created->sampled) return {};
    tracing::open_span made{*options_.traces, tracing::tracer::child_of(*created), "send " + m.destination,
                            tracing::span_kind::producer};
    made.set_parent(*created, core::find_header(m.headers, core::header::tracestate).value_or(""));
    bool const by_exchange = options_.traces->messaging_system() == "rabbitmq";
    made.set("messaging.system", options_.traces->messaging_system())
        .set("messaging.operation.name", "send")
        .set("messaging.operation.type", "send")
        .set("messaging.destination.name", by_exchange ? "skald" : m.destination)
        .set("messaging.message.id", m.id);
    if (by_exchange) made.set("messaging.rabbitmq.destination.routing_key", m.destination);
    return made;
}

std::size_t publish_loop::take_answers(std::chrono::milliseconds max_wait)
{
    // While nothing is polled, the source is overdue and says not to wait at all.
    std::chrono::milliseconds const wait = is_open_ ? source_.max_wait() : broker_poll;
    publish_source::answers answers;
    auto receipts = publisher_.collect(std::clamp(wait, 0ms, max_wait));
    auto const now = clock::now();
    for (auto& receipt : receipts) record(std::move(receipt), now, answers);
    bool const is_known = answers.unresolved.empty();
    if (!is_known) pause();
    auto const gone = source_.resolve(std::move(answers));
    // That it was sent says nothing yet: an answer that is not known, or can't be stored, sends it all again.
    if (is_open_ && is_known && unanswered_.empty()) failures_in_a_row_ = 0;
    if (gone > 0 && is_known) log_availability({});
    return gone;
}

void publish_loop::record(ports::receipt&& receipt, clock::time_point now, publish_source::answers& answers)
{
    auto const found = unanswered_.extract(receipt.row);
    if (found.empty()) return;  // from a pass that failed
    auto& [attempts, key, destination, is_users, is_reply, sent_at, sending] = found.mapped();
    options_.counts->messages.at(static_cast<std::size_t>(receipt.status)).add();
    options_.counts->confirm.observe(now - sent_at);
    if (receipt.status != ports::publish_status::confirmed) sending.fail(receipt.reason);
    sending.end();
    if (receipt.status == ports::publish_status::confirmed) {
        if (is_users) logged_unrouted_.erase(destination);
        return answers.confirmed.push_back(receipt.row);
    }
    if (receipt.status == ports::publish_status::returned && is_users)
        return record_unrouted(std::move(receipt), found.mapped(), answers);
    has_failed_ = true;
    if (receipt.status == ports::publish_status::unresolved) {
        log_availability(receipt.reason);
        return answers.unresolved.push_back(receipt.row);
    }
    int const tries = std::min(attempts, attempts_max) + 1;
    log_not_sent(found.mapped(), tries, receipt);
    // Until somebody has changed that, each try is in vain.
    auto const& backoff = receipt.status == ports::publish_status::barred ? options_.defer_barred : options_.defer;
    answers.deferred.push_back({receipt.row, std::move(receipt.reason), backoff.wait(tries, random_)});
}

void publish_loop::record_unrouted(ports::receipt&& receipt, label const& what, publish_source::answers& answers)
{
    if (what.is_reply)
        log_now_and_then(replies_, core::severity::info, "reply.unrouted", what, what.attempts + 1, receipt.reason);
    // One that was moved to skald.unrouted and is tried again has been logged already.
    else if (what.attempts == 0) log_unrouted(what.destination, receipt.reason);
    answers.deferred.push_back({receipt.row, std::move(receipt.reason), 0ms, true});
}

// Logs the first one at once, and then one line a minute that counts the others: thousands of rows that wait for one
// queue are one problem.
void publish_loop::log_now_and_then(not_sent& unreported, core::severity level, std::string_view event,
                                    label const& what, int tries, std::string const& reason)
{
    ++unreported.count;
    auto const now = clock::now();
    if (now < unreported.silent_until) return;
    log_.write(level, event,
               {{"key", what.key},
                {"destination", what.destination},
                {"attempts", tries},
                {"count", unreported.count},
                {"reason", reason}});
    unreported = {now + options_.not_sent_silence, 0};
}

// Replies go to as many queues as there are clients: where an exchange is barred, that is one problem.
void publish_loop::log_not_sent(label const& what, int tries, ports::receipt const& receipt)
{
    auto const& about = receipt.status == ports::publish_status::barred ? receipt.reason : what.destination;
    if (not_sent_.size() >= destinations_max && !not_sent_.contains(about)) not_sent_.clear();
    log_now_and_then(not_sent_[about], core::severity::warning, "outbox.not_sent", what, tries, receipt.reason);
}

// Logged once per destination, until one of its messages goes through.
void publish_loop::log_unrouted(std::string const& destination, std::string const& reason)
{
    if (logged_unrouted_.size() >= destinations_max)
        logged_unrouted_.clear();  // invented destinations are logged again
    if (!logged_unrouted_.insert(destination).second) return;
    log_.warning("event.unrouted", {{"destination", destination}, {"reason", reason}});
}

void publish_loop::pause()
{
    paused_until_ = clock::now() + options_.pause.wait(++failures_in_a_row_, random_);
}

// Once per change, not once per pass.
void publish_loop::log_availability(std::string const& reason)
{
    if (reason == last_error_) return;
    last_error_ = reason;
    if (reason.empty()) log_.info("relay.available", {{"source", source_.name()}});
    else log_.warning("relay.waiting", {{"source", source_.name()}, {"reason", reason}});
}

}  // namespace skald::runtime
