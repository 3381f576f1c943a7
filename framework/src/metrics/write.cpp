#include "metrics/write.hpp"

#include "metrics/catalogue.hpp"

#include <string>

namespace skald::metrics {
namespace {

constexpr std::string_view name_of_direction(bool is_forward)
{
    return is_forward ? "forward" : "compensation";
}

void write_direction(exposition& to, std::string_view definition, std::string_view step, bool is_forward,
                     direction_metrics const& m)
{
    label const d{"definition", definition}, s{"step", step}, w{"direction", name_of_direction(is_forward)};
    to.add(of::deliveries, {d, s, w}, m.deliveries);
    to.add(of::redelivered, {d, s, w}, m.redelivered);
    for (std::size_t n = 0; n < step_end_names.size(); ++n)
        to.add(of::results, {d, s, w, {"result", step_end_names[n]}}, m.ends.all()[n]);
    for (std::size_t n = 0; n < rollback_names.size(); ++n)
        to.add(of::rollbacks, {d, s, w, {"reason", rollback_names[n]}}, m.rolled_back[n]);
    to.add(of::claim_seconds, {d, s, w}, m.claim.now());
    to.add(of::run_seconds, {d, s, w}, m.run.now());
    to.add(of::commit_seconds, {d, s, w}, m.commit.now());
    to.add(of::batch, {d, s, w}, m.batch.now());
}

/// The two publish loops have the same metrics under different names.
struct loop_names
{
    description const &messages, &wait, &confirm, &failures, &available;
};

void write_loop(exposition& to, loop_names const& names, publish_metrics const& m)
{
    for (std::size_t n = 0; n < publish_names.size(); ++n)
        to.add(names.messages, {{"result", publish_names[n]}}, m.messages[n]);
    to.add(names.wait, {}, m.waited.now());
    to.add(names.confirm, {}, m.confirm.now());
    to.add(names.failures, {}, m.failures);
    to.add(names.available, {}, m.available.value());
}

void write_figures(exposition& to, figures const& m)
{
    for (auto const& [definition, state, value] : m.sagas)
        to.add(of::sagas, {{"definition", definition}, {"state", state}}, value);
    for (auto const& [definition, state, value] : m.oldest_sagas)
        to.add(of::oldest_saga, {{"definition", definition}, {"state", state}}, value);
    for (auto const& [state, nothing, value] : m.outbox_rows) to.add(of::outbox_rows, {{"state", state}}, value);
    for (auto const& [reason, nothing, value] : m.parked) to.add(of::parked_rows, {{"reason", reason}}, value);
    auto const add_started = [&to](description const& what, std::vector<figures::by_two> const& all) {
        for (auto const& [kind, dependency, value] : all)
            to.add(what, {{"kind", kind}, {"dependency", dependency}}, value);
    };
    add_started(of::started_rows, m.started);
    add_started(of::oldest_started, m.oldest_started);
    add_started(of::started_overdue, m.started_overdue);
    for (auto const& [dependency, nothing, value] : m.unknown_calls)
        to.add(of::unknown_calls, {{"dependency", dependency}}, value);
    for (auto const& [step, direction, value] : m.unsettled)
        to.add(of::unsettled, {{"step", step}, {"direction", direction}}, value);
    to.add(of::outbox_overdue, {}, m.outbox_overdue_seconds);
    to.add(of::unrouted_rows, {}, m.unrouted);
    if (m.deadlocks) to.add(of::deadlocks, {}, *m.deadlocks);
}

}  // namespace

void write(exposition& to, std::string_view definition, std::string_view step, step_metrics const& m)
{
    write_direction(to, definition, step, true, m.forward);
    write_direction(to, definition, step, false, m.compensation);
}

void write_calls(exposition& to, std::string_view definition, std::string_view step, bool is_forward,
                 step_metrics const& m)
{
    auto const& of_direction = is_forward ? m.forward : m.compensation;
    to.add(of::call_seconds, {{"definition", definition}, {"step", step}, {"direction", name_of_direction(is_forward)}},
           of_direction.call.now());
}

void write(exposition& to, std::string_view step, limit_metrics const& m)
{
    label const s{"step", step};
    if (m.lanes.value() > 0) {  // it has a limit from its first delivery on
        to.add(of::limit_lanes, {s}, m.lanes.value());
        to.add(of::limit_batch, {s}, m.batch.value());
    }
    to.add(of::limit_turns, {s}, m.takes_turns.value());
    to.add(of::conflicts, {s}, m.conflicts);
    for (std::size_t n = 0; n < limit_reason_names.size(); ++n)
        to.add(of::limit_changes, {s, {"reason", limit_reason_names[n]}}, m.changes.all()[n]);
}

void write(exposition& to, lane_metrics const& m, doubt_metrics const& requests)
{
    for (std::size_t n = 0; n < parked_reasons.size(); ++n)
        to.add(of::parked_total, {{"reason", parked_reasons[n]}}, m.parked[n]);
    to.add(of::reports, {}, m.reports);
    to.add(of::commands, {}, m.commands);
    for (std::size_t n = 0; n < rollback_names.size(); ++n)
        to.add(of::report_rollbacks, {{"reason", rollback_names[n]}}, m.rolled_back[n]);
    auto const sum = [](counter const& one, counter const& other) {
        return static_cast<double>(one.value() + other.value());
    };
    to.add(of::in_doubt, {}, sum(m.doubts.in_doubt, requests.in_doubt));
    to.add(of::in_doubt_resolved, {{"result", "committed"}}, sum(m.doubts.had_committed, requests.had_committed));
    to.add(of::in_doubt_resolved, {{"result", "rolled_back"}}, sum(m.doubts.had_rolled_back, requests.had_rolled_back));
}

void write_dispatch(exposition& to, publish_metrics const& m)
{
    write_loop(
        to,
        {of::dispatch_messages, of::dispatch_wait, of::dispatch_confirm, of::dispatch_failures, of::dispatch_available},
        m);
}

void write_relay(exposition& to, publish_metrics const& m)
{
    write_loop(to, {of::relay_messages, of::relay_wait, of::relay_confirm, of::relay_failures, of::relay_available}, m);
}

void write(exposition& to, front_metrics const& m)
{
    for (std::size_t n = 0; n < front_results.size(); ++n)
        to.add(of::front_asked, {{"result", front_results.at(n)}}, m.asked.at(n));
    to.add(of::front_not_asked, {}, m.not_asked);
    to.add(of::front_seconds, {}, m.seconds.now());
}

void write(exposition& to, body_metrics const& m)
{
    to.add(of::bodies_kept, {}, m.kept);
    to.add(of::bodies_kept_bytes, {}, m.kept_bytes);
    for (std::size_t n = 0; n < body_read_names.size(); ++n)
        to.add(of::bodies_read, {{"result", body_read_names.at(n)}}, m.reads.all().at(n));
    to.add(of::bodies_read_bytes, {}, m.read_bytes);
    to.add(of::bodies_removed, {}, m.removed);
}

void write(exposition& to, route_metrics const& m)
{
    label const route{"route", m.name};
    for (std::size_t n = 0; n < m.statuses.size(); ++n) {
        if (m.statuses.at(n).value() == 0) continue;
        auto const status = std::to_string(status_first + static_cast<int>(n));
        to.add(of::requests, {route, {"status", status}}, m.statuses.at(n));
    }
    to.add(of::replayed, {route}, m.replayed);
    to.add(of::request_seconds, {route}, m.seconds.now());
}

void write(exposition& to, std::string_view dependency, core::breaker_status const& s)
{
    label const d{"dependency", dependency};
    to.add(of::dependency_open, {d}, s.state == core::breaker_state::closed ? 0 : 1);
    to.add(of::dependency_opened, {d}, static_cast<double>(s.opened));
    to.add(of::dependency_running, {d}, static_cast<double>(s.running));
    auto const add = [&](std::string_view result, std::uint64_t count) {
        to.add(of::dependency_calls, {d, {"result", result}}, static_cast<double>(count));
    };
    add("ok", s.ok);
    add("failed", s.failed);
    add("slow", s.slow);
    add("nothing", s.nothing);
}

void write(exposition& to, database_figures::seen const& m)
{
    to.add(of::database_connected, {}, m.is_connected ? 1 : 0);
    for (auto const& [kind, ended] : m.ended)
        to.add(of::saga_seconds, {{"definition", kind.first}, {"result", kind.second}},
               distribution{saga_bounds, {ended.counts.begin(), ended.counts.end()}, ended.seconds});
    to.add(of::figures_age, {}, std::chrono::duration<double>(m.age).count());
    if (m.latest && m.age <= figures_age_max) write_figures(to, *m.latest);
}

}  // namespace skald::metrics
