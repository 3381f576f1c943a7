#include "doctor.hpp"

#include "rabbitmq/administration.hpp"

#include <fmt/format.h>

#include <exception>

namespace skald::tools {
namespace {

std::string declares_it(std::string const& service, bool declares)
{
    if (!declares) return "run `skald declare --service " + service + "`: with SKALD_DECLARE=off no service does";
    return "start the service once: it declares its queues";
}

void examine_queues(rabbitmq::inspection const& seen, std::string const& service, bool declares, findings& found)
{
    auto const queue = "skald." + service;
    if (!seen.queue || !seen.parked)
        found.push_back({"queue", health::problem,
                         (seen.queue ? queue + ".parked" : queue) + " does not exist: what is sent to " + service +
                             " stays in the senders' outboxes",
                         declares_it(service, declares)});
    else if (!seen.mismatch.empty()) found.push_back({"queue", health::problem, seen.mismatch, ""});
    else
        found.push_back(
            {"queue", seen.queue->consumers > 0 ? health::ok : health::warning,
             fmt::format("{} is a quorum queue with a delivery limit and a parked queue; {} wait, {} consumers", queue,
                         seen.queue->messages, seen.queue->consumers),
             seen.queue->consumers > 0 ? "" : "no process consumes it: start the service"});
    if (seen.queue && seen.parked) {
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

}  // namespace

void examine_broker(std::string const& url, postgres::ownership const& owner, bool declares, findings& found)
try {
    auto const seen = rabbitmq::inspect(url, owner.service, owner.database, declares);
    found.push_back({"broker", health::ok, seen.broker + " is reachable", ""});
    if (seen.missing_exchange)
        found.push_back({"exchange", health::problem, "the exchange " + *seen.missing_exchange + " does not exist",
                         declares ? "start a service once: it declares the exchanges"
                                  : declares_it(owner.service.empty() ? "NAME" : owner.service, declares)});
    else found.push_back({"exchange", health::ok, "both exchanges exist", ""});
    if (!seen.takes_nothing.empty())
        found.push_back({"publishing", health::problem, "the broker takes no messages: " + seen.takes_nothing,
                         "correct that at the broker (`rabbitmq-diagnostics alarms`); until then messages wait in the "
                         "outboxes"});
    else if (!seen.missing_exchange) found.push_back({"publishing", health::ok, "the broker takes messages", ""});
    if (!owner.service.empty()) examine_queues(seen, owner.service, declares, found);
}
catch (std::exception const& error) {
    found.push_back(
        {"broker", health::problem, std::string{"can't be examined: "} + error.what(),
         "check that it runs and that AMQP_URL names it; until then requests are accepted and messages wait"});
}

}  // namespace skald::tools
