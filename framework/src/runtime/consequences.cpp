#include "runtime/consequences.hpp"

#include "core/foreign_message.hpp"
#include "core/text.hpp"

#include <nlohmann/json.hpp>

#include <map>

namespace skald::runtime {
namespace {

std::string progress_body(core::envelope const& e, std::string_view service, step_report const& report)
{
    nlohmann::json member{{"scope", e.saga.scope},
                          {"key", e.saga.key},
                          {"step", e.key().guarded_step()},
                          {"service", service},
                          {"status", core::name_of(report.status)},
                          {"attempts", report.attempts},
                          {"at", core::write_instant(report.at)}};
    if (!report.error.empty()) member["error"] = core::storable_text(report.error);
    if (report.saga_may_have_changed) {
        member["saga"] = core::name_of(report.saga);
        if (!e.reason.empty()) member["reason"] = core::storable_text(e.reason);
    }
    return nlohmann::json::array({std::move(member)}).dump();
}

// skald.enqueue() has the same default.
std::string aggregate_type_of(std::string_view definition)
{
    return definition.empty() ? "message" : std::string{definition};
}

}  // namespace

ports::enqueued to_enqueue(core::envelope const& e, std::string body, std::chrono::milliseconds delay)
{
    return {core::write_message(e, std::move(body)), e.saga.scope, e.definition, e.saga.key, delay};
}

void add_published(ports::changes& changes, core::saga_id const& saga, std::string_view definition,
                   std::string const& key, trace_context const& trace,
                   std::vector<detail::published_message> const& published)
{
    // Numbered, so that no two share a key, whatever their types, and none gets the key of a step.
    int number = 0;
    for (auto const& p : published) {
        core::message m;
        m.destination = p.destination;
        m.type = p.type;
        m.id = key + '.' + std::to_string(++number) + '.' + p.type;
        m.body = p.body;
        m.headers = {{std::string{core::header::idempotency_key}, m.id},
                     {std::string{core::header::scope}, saga.scope}};
        if (!definition.empty()) m.headers.emplace_back(core::header::definition, definition);
        core::add_trace(m.headers, trace);
        changes.messages.push_back({std::move(m), saga.scope, aggregate_type_of(definition), saga.key, {}});
        changes.messages.back().if_unrouted = p.if_unrouted == unrouted::drop ? "drop" : "keep";
    }
}

void add_report(ports::changes& changes, core::envelope const& e, std::string_view service, step_report const& report)
{
    if (!e.is_of_saga()) return;  // nobody waits for it
    if (e.home == service && !report.is_recorded) {
        changes.progress.push_back(progress_body(e, service, report));
        return;
    }
    if (e.home == service) {
        if (report.saga_may_have_changed) changes.saga_changes.push_back({e.saga, report.saga, e.reason});
        return;
    }
    core::message m;
    m.destination = e.home;
    m.type = core::progress_type;
    m.id = e.key().text() + ".progress";
    m.headers = {{std::string{core::header::idempotency_key}, m.id},
                 {std::string{core::header::scope}, e.saga.scope},
                 {std::string{core::header::definition}, e.definition},
                 {std::string{core::header::version}, std::to_string(e.version)}};
    core::add_trace(m.headers, e.trace);
    m.body = progress_body(e, service, report);
    changes.messages.push_back({std::move(m), e.saga.scope, e.definition, e.saga.key, {}});
}

void merge_reports(ports::changes& changes)
{
    std::map<std::string, std::vector<std::string>> by_home;
    std::vector<ports::enqueued> messages;
    for (auto& one : changes.messages) {
        bool const is_report = one.message.type == core::progress_type;
        auto body = is_report ? one.message.body : std::string{};
        if (is_report) {
            auto& reports = by_home[one.message.destination];
            reports.push_back(std::move(body));
            if (reports.size() > 1) continue;
        }
        messages.push_back(std::move(one));
    }
    for (auto& one : messages) {
        if (one.message.type != core::progress_type) continue;
        auto const& reports = by_home[one.message.destination];
        one.message.body = join_arrays(reports);
        if (reports.size() > 1) core::remove_trace(one.message.headers);  // it belongs to several
    }
    changes.messages = std::move(messages);
}

std::string join_arrays(std::vector<std::string> const& arrays)
{
    std::string joined;
    for (auto const& one : arrays) {
        if (joined.empty()) joined = one;
        else joined.append(one, 1);
        joined.back() = ',';
    }
    joined.back() = ']';
    return joined;
}

ports::parked_delivery to_park(task const& t, std::string_view reason, std::string const& why)
{
    auto const& m = t.delivery.message;
    if (auto const* const step = t.step()) {
        ports::parked_delivery parked{step->envelope.saga,   step->key().guarded_step(), std::string{reason}, why, m,
                                      step->envelope.attempt};
        parked.handler = t.delivery.handler;
        return parked;
    }
    ports::parked_delivery parked{{}, {}, std::string{reason}, why, m, 0};
    parked.handler = t.delivery.handler;
    if (!parked.handler.empty()) {  // its headers are its sender's, but for those of one that was tried before
        auto const known = reason == "unknown_step" ? core::identity_in(m) : std::nullopt;
        if (!known) return parked;
        parked.saga = *known;
        parked.step = parked.handler;
        return parked;
    }
    auto const text = core::find_header(m.headers, core::header::idempotency_key).value_or(std::string_view{});
    if (auto const key = core::parse_derived_key(text)) {
        auto const scope = core::find_header(m.headers, core::header::scope).value_or(std::string_view{});
        parked.saga = {std::string{scope}, key->key};
        parked.step = key->guarded_step();
    }
    return parked;
}

}  // namespace skald::runtime
