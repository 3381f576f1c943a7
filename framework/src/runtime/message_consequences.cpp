#include "runtime/message_consequences.hpp"

#include "core/foreign_message.hpp"

#include <utility>

namespace skald::runtime {

ports::enqueued message_again(task const& t, core::envelope const& e, std::chrono::milliseconds wait)
{
    auto const& at = e.itinerary.current();
    auto again = core::write_again(t.delivery.message, core::handler_destination(at.service, at.name), e.saga,
                                   e.key().text(), e.attempt, e.snoozes);
    return {std::move(again), e.saga.scope, "message", e.saga.key, wait};
}

ports::enqueued message_unchanged(task const& t, std::string_view service, core::instant since,
                                  std::chrono::milliseconds wait)
{
    auto const& m = t.delivery.message;
    auto const& handler = t.delivery.handler;
    auto again = core::write_unchanged(m, core::handler_destination(service, handler), handler);
    if (!waits_since(t)) {
        std::erase_if(again.headers, [](auto const& one) { return one.first == core::header::waits_since; });
        again.headers.emplace_back(core::header::waits_since, core::write_instant(since));
    }
    auto const known = core::identity_in(m).value_or(core::saga_id{});
    return {std::move(again), known.scope, "message", known.key, wait};
}

std::optional<core::instant> waits_since(task const& t)
{
    auto const text = core::find_header(t.delivery.message.headers, core::header::waits_since);
    return text ? core::parse_instant(*text) : std::nullopt;
}

void add_reply(ports::changes& changes, task const& t, std::string const& body)
{
    auto const& e = t.step()->envelope;
    auto const& handler = e.itinerary.current().name;
    changes.replies.push_back({e.saga, handler, body});
    auto reply = core::write_reply(t.delivery.message, handler, e.key().text(), body);
    if (reply.destination.empty()) return;
    core::add_trace(reply.headers, e.trace);
    changes.messages.push_back({std::move(reply), e.saga.scope, "message", e.saga.key, {}});
    changes.messages.back().if_unrouted = "drop";  // whoever asked has gone
}

void repeat_reply(ports::changes& changes, task const& t)
{
    auto const& e = t.step()->envelope;
    auto const& handler = e.itinerary.current().name;
    auto reply = core::write_reply(t.delivery.message, handler, e.key().text(), {});
    if (!reply.destination.empty()) changes.repeated.push_back({e.saga, handler, std::move(reply)});
}

}  // namespace skald::runtime
