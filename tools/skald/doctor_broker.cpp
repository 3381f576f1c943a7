#include "doctor.hpp"

#include "rabbitmq/administration.hpp"
#include "rabbitmq/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>

namespace skald::tools {
namespace {

std::string declares_it(std::string const& service, bool declares)
{
    if (!declares) return "run `skald declare --service " + service + "`: with SKALD_DECLARE=off no service does";
    return "start the service once: it declares its queues";
}

bool was_examined(rabbitmq::inspection const& seen, std::string_view at)
{
    return std::ranges::none_of(seen.not_examined, [at](auto const& one) { return one.at == at; });
}

// What waits, and nobody takes it: that is not as it should be at any time.
health without_consumer(rabbitmq::queue_depth const& queue)
{
    if (queue.consumers > 0) return health::ok;
    return queue.messages > 0 ? health::problem : health::warning;
}

void examine_declaring(rabbitmq::inspection const& seen, findings& found)
{
    auto why = seen.may_not_declare;
    for (auto const& one : seen.handlers)
        if (why.empty()) why = one.may_not_declare;
    if (!why.empty())
        found.push_back({"declaring", health::problem,
                         "this user may not declare what a service with SKALD_DECLARE=on does: " + why,
                         "if the service runs with SKALD_DECLARE=off, run doctor with that too; otherwise let its user "
                         "configure what docs/security.md names"});
}

void examine_queues(rabbitmq::inspection const& seen, std::string const& service, bool declares, findings& found)
{
    auto const queue = "skald." + service;
    if (!was_examined(seen, "queue")) return;
    bool const is_compared =
        declares && seen.may_not_consume.empty() && seen.may_not_declare.empty() && was_examined(seen, "declaring");
    if (!seen.queue || !seen.parked)
        found.push_back({"queue", health::problem,
                         (seen.queue ? queue + ".parked" : queue) + " does not exist: what is sent to " + service +
                             " stays in the senders' outboxes",
                         declares_it(service, declares)});
    else if (!seen.mismatch.empty()) found.push_back({"queue", health::problem, seen.mismatch, ""});
    else {
        found.push_back(
            {"queue", without_consumer(*seen.queue),
             fmt::format("{} {}; {} wait, {} consumers", queue,
                         is_compared ? "is a quorum queue with a delivery limit and a parked queue"
                                     : "and its parked queue exist",
                         seen.queue->messages, seen.queue->consumers),
             seen.queue->consumers > 0
                 ? ""
                 : "no process consumes it: start the service; if it runs, `broker.lost` in its log says why"});
    }
    if (seen.queue && seen.parked && was_examined(seen, "consuming")) {
        found.push_back({"consuming", seen.may_not_consume.empty() ? health::ok : health::problem,
                         seen.may_not_consume.empty() ? "this user may consume both queues"
                                                      : "this user may not: " + seen.may_not_consume,
                         seen.may_not_consume.empty()
                             ? ""
                             : "if the service connects as this user, give it the permission to "
                               "read the queues: see docs/security.md"});
    }
    if (seen.parked && seen.parked->messages > 0)
        found.push_back(
            {"parked queue", health::warning,
             fmt::format("{} dead-lettered deliveries wait for the service to park them", seen.parked->messages),
             "start the service; if they stay, inspect them with the broker's tools: they can't be decoded"});
}

std::string no_longer_there(std::string const& handler)
{
    return fmt::format(
        "; if no version of the service has this handler any more, delete its queue, and its row: `DELETE "
        "FROM skald.handler WHERE handler = '{}'`",
        handler);
}

// What its queue is to be bound to. AMQP doesn't show what it is bound to.
std::string bindings_of(ports::handler_queue const& one)
{
    std::string all;
    for (auto const& to : one.bindings)
        all += fmt::format("{}{}:{}", all.empty() ? "" : ", ", to.exchange, to.routing_key);
    return all.empty() ? "none but its own key" : all;
}

finding examine_handler(rabbitmq::handler_inspection const& seen, ports::handler_queue const& one,
                        std::string const& service, bool declares)
{
    auto const check = "handler " + one.handler;
    if (!seen.depth)
        return {check, health::problem, seen.queue + " does not exist: what is published for the handler is lost",
                (declares ? "start the service: it declares the queue"
                          : fmt::format("run `skald declare --service {} --handler {}=EXCHANGE:ROUTING_KEY`, for {}",
                                        service, one.handler, bindings_of(one))) +
                    no_longer_there(one.handler)};
    if (!seen.missing_exchanges.empty())
        return {check, health::problem,
                fmt::format("the exchange {} does not exist: the handler hears nothing of it",
                            seen.missing_exchanges.front()),
                "its owner declares it, or the service when it starts, if message_binding{.type} is given"};
    if (!seen.mismatch.empty()) return {check, health::problem, seen.mismatch, ""};
    if (!seen.may_not_consume.empty())
        return {check, health::problem, "this user may not: " + seen.may_not_consume,
                "if the service connects as this user, give it the permission to read the queue: see docs/security.md"};
    if (seen.depth->consumers == 0)
        return {check, without_consumer(*seen.depth),
                fmt::format("no process consumes {}; {} wait", seen.queue, seen.depth->messages),
                "start the service" + no_longer_there(one.handler)};
    return {check, health::ok,
            fmt::format("{} waits for {}; {} wait, {} consumers", seen.queue, bindings_of(one), seen.depth->messages,
                        seen.depth->consumers),
            ""};
}

void examine_handlers(rabbitmq::inspection const& seen, expected const& at_broker, bool declares, findings& found)
{
    for (std::size_t n = 0; n < seen.handlers.size(); ++n)
        if (was_examined(seen, "handler " + at_broker.handlers[n].handler))
            found.push_back(
                examine_handler(seen.handlers[n], at_broker.handlers[n], at_broker.owner.service, declares));
    if (!seen.may_not_reply.empty())
        found.push_back(
            {"replies", health::warning, "this user may not reply: " + seen.may_not_reply,
             "if the service connects as this user and its handlers reply, let it write to `amq.default`: see "
             "docs/security.md"});
    else if (!seen.handlers.empty() && was_examined(seen, "replies"))
        found.push_back({"replies", health::ok, "this user may reply to messages", ""});
}

// Its own database may be looked at by nobody: the homes are where its sagas are waited for.
void examine_other(std::string const& url, std::string const& service, findings& found)
try {
    auto const depth = rabbitmq::depth_of_service(url, service);
    if (!depth || without_consumer(*depth) != health::problem) return;
    found.push_back({"other services", health::problem,
                     fmt::format("sagas of this home go to {0}, and no process consumes skald.{0}; {1} messages wait",
                                 service, depth->messages),
                     "start that service"});
}
catch (rabbitmq::connection_lost const& error) {
    found.push_back({"other services", health::problem, fmt::format("not examined: {}", error.what()), ""});
}

}  // namespace

void examine_broker(std::string const& url, expected const& at_broker, bool declares, findings& found)
try {
    auto const& owner = at_broker.owner;
    auto const seen = rabbitmq::inspect_all(url, owner.service, owner.database, declares, at_broker.handlers);
    found.push_back({"broker", health::ok, seen.broker + " is reachable", ""});
    for (auto const& one : seen.not_examined)
        found.push_back({one.at, health::problem, "not examined: " + one.why, ""});
    if (seen.missing_exchange)
        found.push_back({"exchange", health::problem, "the exchange " + *seen.missing_exchange + " does not exist",
                         declares ? "start a service once: it declares the exchanges"
                                  : declares_it(owner.service.empty() ? "NAME" : owner.service, declares)});
    else if (was_examined(seen, "exchange")) found.push_back({"exchange", health::ok, "both exchanges exist", ""});
    if (!seen.takes_nothing.empty())
        found.push_back({"publishing", health::problem, "the broker takes no messages: " + seen.takes_nothing,
                         "correct that at the broker (`rabbitmq-diagnostics alarms`, or this user's right to write: "
                         "docs/security.md); until then messages wait in the outboxes"});
    else if (!seen.missing_exchange && was_examined(seen, "publishing"))
        found.push_back({"publishing", health::ok, "the broker takes messages", ""});
    if (!owner.service.empty()) examine_queues(seen, owner.service, declares, found);
    examine_handlers(seen, at_broker, declares, found);
    examine_declaring(seen, found);
    for (auto const& service : at_broker.others) examine_other(url, service, found);
}
catch (std::exception const& error) {
    found.push_back(
        {"broker", health::problem, std::string{"can't be examined: "} + error.what(),
         "check that it runs, that AMQP_URL names it, and that the user may use that virtual host; until then requests "
         "are accepted and messages wait"});
}

}  // namespace skald::tools
