#include "entry/entry.hpp"

#include "core/assert.hpp"
#include "entry/probes.hpp"
#include "http/handler.hpp"
#include "http/poll_schedule.hpp"
#include "http/prefer.hpp"
#include "http/problem.hpp"
#include "http/target.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace skald {

using entry_detail::destination;

namespace {

using namespace std::chrono_literals;

// How long a request waits for a connection that others have. Nothing was done then, and the client is told so.
constexpr std::chrono::milliseconds connection_wait{10'000};

// A duplicate is recognized by the hash of its body, too. That of a larger one is not for the thread that serves all
// sockets.
constexpr std::size_t hashed_at_once_max = 64 * 1024;

std::size_t route_in(std::any const& notes)
{
    auto const* const to = std::any_cast<destination>(&notes);
    return to != nullptr ? to->number : 0;
}

bool is_replay(http::response const& made)
{
    return std::ranges::any_of(made.headers, [](auto const& h) { return h.first == "Idempotency-Replayed"; });
}

}  // namespace

entry::implementation::implementation(std::string service, entry_detail::route_table const& routes,
                                      config const& settings, core::logger& log, tracing::tracer* traces,
                                      std::shared_ptr<ports::front> front)
    : service_{std::move(service)}, routes_{routes}, connections_max_{settings.http_lanes},
      wait_max_{settings.http_wait_max}, log_{log}, access_level_{core::parse_severity(settings.access_log_level)},
      traces_{traces}, readiness_{log}, front_{std::move(front)},
      known_{.responses = entry_detail::response_cache{{settings.http.kept_bytes_max, settings.http.kept_time}},
             .epochs = entry_detail::epoch_watch{front_ ? settings.redis_epoch : std::chrono::milliseconds{}},
             .front = front_.get(),
             .way = entry_detail::parse_guard_way(settings.guard).value()}
{}

entry::implementation::connection::connection(implementation& of, process const& with)
    : wake{[&out = with.out, waits = with.wake_waits] {
          out.notify();
          if (waits) waits();
      }},
      store{with.database}, guard{of.service_, store, of.known_, with.backlog, with.out, of.log_, with.steps},
      sagas{store, wake, of.log_}, deliveries{with.deliveries}
{}

void entry::implementation::open(process const& with)
{
    std::vector<std::unique_ptr<connection>> connections;
    for (std::size_t i = 0; i < connections_max_; ++i) connections.push_back(std::make_unique<connection>(*this, with));
    known_.epochs.open([identity = with.database.database] { return identity->is_another(); });
    if (front_) front_->open(with.database_id);
    connections_.open(std::move(connections));
}

bool entry::implementation::close(std::chrono::steady_clock::time_point deadline)
{
    is_closed_ = true;
    bool const all_came_back = connections_.close(deadline);
    if (front_) front_->close();
    return all_came_back;
}

std::optional<http::reply> entry::implementation::respond_at_once(http::request& message, std::any& notes)
{
    return respond_in_memory(message, notes, false);
}

std::optional<http::reply> entry::implementation::respond_in_memory(http::request& message, std::any& notes,
                                                                    bool may_block)
{
    if (auto alive = entry_detail::liveness(message)) return *std::move(alive);
    if (message.method == "GET" || message.method == "HEAD")
        if (auto description = http::describe_problem(message.path)) return *std::move(description);
    if (!notes.has_value()) {
        if (!may_block && !routes_.finds_at_once()) return {};
        auto found = routes_.find(message);
        if (auto* refusal = std::get_if<http::response>(&found)) return std::move(*refusal);
        notes = std::get<destination>(std::move(found));
    }
    auto const& to = std::any_cast<destination const&>(notes);
    if (to.what != destination::kind::handler) return {};
    if (!may_block && message.body.size() > hashed_at_once_max) return {};
    return entry_detail::find_known(known_, {message, to});
}

// Whatever a scope function throws is a response, too: not every server in front has one for it.
http::reply entry::implementation::respond(http::request& message, std::any& notes)
try {
    if (auto made = respond_in_memory(message, notes, true)) return *std::move(made);
    auto const& to = std::any_cast<destination const&>(notes);
    auto before = connections_.is_open() && to.what == destination::kind::handler
                      ? entry_detail::ask_front(known_, {message, to})
                      : entry_detail::fronted{};
    if (before.made) return *std::move(before.made);
    auto const with = connections_.take(connection_wait);
    if (with) return respond_by(*with, message, to, std::move(before.mark));
    if (is_closed_) return entry_detail::not_ready("the service is stopping");
    if (!connections_.is_open()) return entry_detail::not_ready("the service is starting");
    return http::with_retry_after(
        http::problem(503, "too many requests are being served; nothing was done, send the request again"), 1s);
}
catch (std::exception const&) {
    return http::internal_error(message, std::current_exception(), log_);
}

http::reply entry::implementation::run_handler(connection& with, http::request const& message, destination const& to,
                                               entry_detail::front_mark mark)
{
    entry_detail::request_trace trace{entry_detail::trace_of(message)};
    trace.span = tracing::begin_span(traces_, trace.passed_on, message.method + ' ' + to.by->pattern,
                                     tracing::span_kind::server);
    trace.span.set("http.request.method", message.method)
        .set("http.route", to.by->pattern)
        .set("skald.scope", to.id.scope)
        .set("skald.key", to.id.key);
    auto made = with.guard.respond({message, to}, trace, std::move(mark));
    if (to.by->check && made.answer.status < 300) with.wake();
    trace.span.set("http.response.status_code", made.answer.status);
    if (made.answer.status >= 500) trace.span.fail({});
    return made;
}

http::reply entry::implementation::respond_by(connection& with, http::request const& message, destination const& to,
                                              entry_detail::front_mark mark)
{
    switch (to.what) {
    case destination::kind::handler: return run_handler(with, message, to, std::move(mark));
    case destination::kind::saga: return with.sagas.show(message, to.id);
    case destination::kind::cancellation: return with.sagas.cancel(to.id);
    case destination::kind::readiness: return readiness_.respond(with.store, with.deliveries);
    }
    SKALD_ASSERT(false);
    return http::problem(500, "");
}

void entry::implementation::count(std::any const& notes, http::response const& made,
                                  std::chrono::steady_clock::duration took)
{
    responded(route_in(notes), made, took);
}

std::size_t entry::implementation::route_of(http::received const& asked) const
{
    return route_in(asked.notes);
}

void entry::implementation::responded(std::size_t route, http::response const& made,
                                      std::optional<std::chrono::steady_clock::duration> took)
{
    auto& counts = routes_.counts(route);
    counts.responded(made.status);
    if (is_replay(made)) counts.replayed.add();
    if (took) counts.seconds.observe(*took);
    log_access(counts.name, made.status, took);
}

// A client that is refused for what it says of itself or of its key is looked for in the log, whatever its level.
void entry::implementation::log_access(std::string_view route, int status,
                                       std::optional<std::chrono::steady_clock::duration> took)
{
    bool const is_sought = status == 401 || status == 422 || status == 429;
    auto const level = is_sought ? std::max(core::severity::info, access_level_) : access_level_;
    auto const us = std::chrono::duration_cast<std::chrono::microseconds>(took.value_or(0s)).count();
    log_.write(level, "http.request", {{"route", route}, {"status", status}, {"duration_us", std::int64_t{us}}});
}

entry::entry(std::unique_ptr<implementation> made) : implementation_{std::move(made)} {}
entry::~entry() = default;

http::reply entry::respond(http::request message)
{
    auto const began = std::chrono::steady_clock::now();
    std::any notes;
    auto const why = http::read_target(message);
    auto made = why.empty() ? implementation_->respond(message, notes) : http::reply{http::problem(400, why)};
    implementation_->count(notes, made.answer, std::chrono::steady_clock::now() - began);
    return made;
}

http::response entry::respond_and_wait(http::request message)
{
    auto const began = std::chrono::steady_clock::now();
    std::any notes;
    auto const why = http::read_target(message);
    auto made = why.empty() ? implementation_->wait_for_last(message, notes) : http::problem(400, why);
    implementation_->count(notes, made, std::chrono::steady_clock::now() - began);
    return made;
}

http::response entry::implementation::wait_for_last(http::request& message, std::any& notes)
{
    auto made = respond(message, notes);
    auto const max_wait = std::min(made.max_wait, wait_max_);
    if (max_wait.count() == 0) return std::move(made.answer);

    http::poll_schedule polls{http::poll_schedule::clock::now(), max_wait};
    while (made.max_wait.count() > 0 && !is_closed()) {
        auto const next = polls.next(http::poll_schedule::clock::now());
        if (!next) break;
        pause(*next);
        made = respond(message, notes);
    }
    http::report_wait(made.answer, message, max_wait);
    return std::move(made.answer);
}

}  // namespace skald
