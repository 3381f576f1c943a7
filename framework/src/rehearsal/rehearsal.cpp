#include "rehearsal/rehearsal.hpp"

#include "core/body_reference.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "core/transition.hpp"
#include "postgres/faults.hpp"
#include "postgres/header_json.hpp"
#include "rehearsal/rolled_back_store.hpp"
#include "rehearsal/source.hpp"
#include "runtime/executor.hpp"

#include <skald/detail/external_work.hpp>
#include <skald/errors.hpp>

#include <fmt/format.h>
#include <pqxx/except>

#include <array>
#include <chrono>
#include <optional>
#include <random>

namespace skald::rehearsal {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// As long as a rehearsal waits for what others have locked, and as others may find it in their way.
constexpr auto lock_wait_max = 200ms;

// What the executor logs of a step is how it ended.
class last_event final : public logger
{
public:
    void write(severity, std::string_view event, std::span<log_field const> fields) noexcept override
    try {
        if (event == "step.left_in_session") return;
        what = {{"event", event}};
        for (auto const& f : fields) std::visit([&](auto const& value) { what[std::string{f.name}] = value; }, f.value);
    }
    catch (std::exception const&) {
    }
    using logger::write;

    json what = json::object();
};

std::string text_of(json const& from, char const* name)
{
    auto const it = from.find(name);
    return it == from.end() || !it->is_string() ? std::string{} : it->get<std::string>();
}

// The message's own, or the one that it refers to, if that would be kept with it.
std::string const& body_of(core::message const& m, ports::changes const& changes)
{
    auto const kept = core::reference_in(m);
    for (auto const& one : changes.bodies)
        if (kept && one.bytes && one.what.fingerprint == kept->fingerprint) return *one.bytes;
    return m.body;
}

json messages_of(ports::changes const& changes)
{
    auto all = json::array();
    for (auto const& one : changes.messages) {
        auto const& m = one.message;
        json sent{{"destination", m.destination},
                  {"type", m.type},
                  {"id", m.id},
                  {"delay_ms", one.delay.count()},
                  {"headers", json::parse(postgres::write_headers(m.headers))}};
        auto const& body = body_of(m, changes);
        if (core::is_storable_text(body)) sent["body"] = body;
        else sent["body_hex"] = core::to_hex(body);
        all.push_back(std::move(sent));
    }
    return all;
}

std::string name_of(ports::claim_result result)
{
    constexpr std::array<char const*, 8> names{"fresh",    "retry",     "duplicate", "in_flight",
                                               "mismatch", "cancelled", "paused",    "closed"};
    return names.at(static_cast<std::size_t>(result));
}

// In one word: how the step would end.
std::string end_of(json const& event, std::vector<ports::claim_answer> const& claimed)
{
    auto const name = text_of(event, "event");
    if (name == "step.put_back" && !claimed.empty()) return name_of(claimed.front().result);
    if (name == "step.completed") return "done";
    if (name == "delivery.parked" && !claimed.empty()) {
        auto const met = claimed.front().result;
        if (met == ports::claim_result::mismatch || met == ports::claim_result::closed) return name_of(met);
    }
    return name.substr(name.find('.') + 1);  // "step.rejected", "delivery.parked"
}

std::string end_of(runtime::run_result::setback const& met)
{
    if (met.why == runtime::failure::lock_timeout) return "locked";
    if (met.why == runtime::failure::transaction_ended) return "transaction_ended";
    return std::string{runtime::name_of(met.why)};
}

// The saga's state from then on, where the step decides it.
std::optional<core::saga_state> saga_after(std::string const& end, core::itinerary const& at)
{
    bool const is_back = at.position.direction == core::direction::back;
    if (end == "done") return core::next(at, core::event::completed).saga;
    if (at.past_pivot()) return {};
    if (end == "cancelled") return core::next(at, core::event::cancelled).saga;
    if (!is_back && (end == "rejected" || end == "attempts_exhausted"))
        return core::next(at, core::event::rejected).saga;
    return {};
}

void add_end(json& report, runtime::run_result const& result, last_event const& log, rolled_back_store const& store)
{
    if (auto const& met = result.not_processed) {
        report["ends"] = end_of(*met);
        report["error"] = met->error;
        return;
    }
    report["ends"] = end_of(log.what, store.claimed());
    for (auto const* name : {"reason", "error", "attempt"})
        if (log.what.contains(name)) report[name] = log.what[name];
}

// Of a step of two transactions: the first is what was rehearsed.
void add_what_follows(json& report, runtime::step_message const& step)
{
    if (report["ends"] != "started") return;
    bool const is_call = step.hosted->step->external(step.is_forward())->is_call();
    report["then"] = is_call ? "call" : "wait";
    report["notes"].push_back(is_call ? "only what comes before the call is rehearsed: nothing was called"
                                      : "only what comes before the wait is rehearsed");
}

runtime::task task_of(core::message const& m, std::string const& service, runtime::registry const& steps)
{
    ports::delivery d;
    d.message = m;
    auto t = runtime::route(std::move(d), service, steps);
    if (auto const* const bad = std::get_if<runtime::unreadable_message>(&t.purpose))
        throw configuration_error{
            fmt::format("its message can't be read, and would be parked as {}: {}", bad->reason, bad->why)};
    if (t.step() == nullptr) throw configuration_error{"its message is for no step"};
    t.tries = 1;  // so that what it defers until COMMIT runs apart from what Skald writes
    return t;
}

postgres::connection_options with_short_wait(postgres::connection_options options)
{
    options.lock_timeout = lock_wait_max;
    return options;
}

// Of a rehearsal that has not come to its step: what that would write or send is not known.
json report_of_nothing(wanted const& what, std::string const& service)
{
    return {{"key", what.key.text()},     {"scope", what.scope}, {"service", service},
            {"notes", json::array()},     {"step_ms", 0.0},      {"took_ms", 0.0},
            {"tables", nullptr},          {"messages", nullptr}, {"locks", json::array()},
            {"waited_for", json::array()}};
}

void run(json& report, source const& found, std::string const& service, postgres::connection_options const& options,
         runtime::body_rules bodies, runtime::registry const& steps, observer& watch)
{
    std::array one{task_of(found.message, service, steps)};
    auto const* const step = one.front().step();
    report["definition"] = step->envelope.definition;
    report["from"] = found.from;
    report["notes"] = found.notes;
    bool const does_batches = step->hosted != nullptr && step->is_forward() && step->hosted->step->does_batches();
    if (does_batches)
        report["notes"].push_back(
            "it runs alone, by execute(); deliveries that arrive together run by execute_batch()");

    rolled_back_store store{options, found.preparation, watch};
    runtime::memory_source out{{.bodies = std::move(bodies)}};
    last_event log;
    auto const from = std::chrono::steady_clock::now();
    auto const result = runtime::executor{service, store, out, log, std::mt19937_64{std::random_device{}()}}.run(one);
    auto const took = std::chrono::steady_clock::now() - from;

    add_end(report, result, log, store);
    add_what_follows(report, *step);
    if (found.saga_ended.empty())
        if (auto const then = saga_after(report["ends"], step->envelope.itinerary))
            report["saga"] = core::name_of(*then);
    report["step_ms"] = std::chrono::duration<double, std::milli>(store.ran()).count();
    report["took_ms"] = std::chrono::duration<double, std::milli>(took).count();
    report["tables"] = store.seen().tables;
    report["locks"] = store.seen().locks;
    report["messages"] = messages_of(store.changes());
    if (auto const& why = store.seen().why_incomplete; !why.empty()) {
        report["notes"].push_back("what it wrote is not listed, or not all of it: " + why);
        if (store.seen().tables.empty()) report["tables"] = nullptr;
    }
}

}  // namespace

json rehearse(wanted const& what, std::string const& service, postgres::connection_options options,
              runtime::body_rules bodies, runtime::registry const& steps, std::span<hosted_plan const> plans)
{
    options = with_short_wait(std::move(options));
    auto report = report_of_nothing(what, service);
    std::optional<observer> watch;
    try {
        source found;
        {
            postgres::connection c{options};
            watch.emplace(options).watch(c.raw().backendpid());
            found = find_source(c, what, service, plans);
        }
        run(report, found, service, options, std::move(bodies), steps, *watch);
    }
    catch (pqxx::failure const& error) {
        report["ends"] = postgres::says_blocked() ? "locked" : "unavailable";
        report["error"] = error.what();
    }
    if (watch) report["waited_for"] = watch->blockers();
    return report;
}

}  // namespace skald::rehearsal
