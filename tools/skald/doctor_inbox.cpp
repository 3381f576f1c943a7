#include "doctor.hpp"

#include "database.hpp"
#include "inbox/peer.hpp"
#include "postgres/literal.hpp"
#include "postgres/service_databases.hpp"
#include "skald_operator_queries.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

#include <pqxx/pqxx>

#include <exception>

namespace skald::tools {
namespace {

// Where processes run and none of them takes from a queue, its message handler is not in their code any more.
std::string remedy_for(pqxx::row const& queue)
{
    if (queue["processes"].as<std::int64_t>() == 0) return "no process consumes it: start the service";
    return fmt::format(
        "no process that runs has its handler: deploy one that does; or, if it is gone for good, look at "
        "what waits (skald.inbox), and remove it with the queue: {}",
        queue["removed_by"].c_str());
}

void examine_queues(postgres::connection& c, std::string const& service, findings& found)
{
    auto const queues = c.run(std::string{operator_queries::inbox_queues});
    if (queues.empty())
        found.push_back(
            {"inbox", health::problem,
             "nothing has ever consumed this inbox: what is sent to " + service + " stays in the senders' outboxes",
             "start the service once with SKALD_TRANSPORT=postgres: it declares its queues"});
    for (auto const& one : queues) {
        auto const waiting = one["waiting"].as<std::int64_t>(), taken = one["taken"].as<std::int64_t>();
        auto const consumers = one["consumers"].as<std::int64_t>();
        found.push_back(
            {"inbox",
             consumers > 0         ? health::ok
             : waiting + taken > 0 ? health::problem
                                   : health::warning,
             fmt::format("{}: {} messages wait, {} are taken, the oldest came {} s ago; {} processes consume",
                         one["name"].c_str(), waiting, taken, one["oldest_seconds"].as<std::int64_t>(), consumers),
             consumers > 0 ? "" : remedy_for(one)});
    }
}

void examine_peer(postgres::service_database const& peer, findings& found)
try {
    postgres::connection_options options;
    options.url = peer.url;
    options.application_name = "skald/doctor";
    postgres::connection c{options};
    auto const seen = c.run(std::string{operator_queries::inbox_of_peer})[0];
    std::string const owner = seen["owner"].as<std::string>("");
    if (owner != peer.service)
        found.push_back({"peer", health::problem,
                         fmt::format("the database of {} in SKALD_PEERS_FILE is that of {}", peer.service,
                                     owner.empty() ? "no service yet" : "`" + owner + "`"),
                         "correct the line, or start the service once"});
    else if (seen["is_copy"].as<bool>())
        found.push_back(
            {"peer", health::problem,
             fmt::format("the database of {} is a copy, or was restored: nothing is sent to it", peer.service),
             "as docs/repair.md says: `skald migrate --service " + peer.service + " --adopt`"});
    else if (std::string const missing = seen["missing"].c_str(); !missing.empty())
        found.push_back({"peer", health::problem,
                         fmt::format("this user may not send to {}: it lacks {}", peer.service, missing),
                         "give its role what docs/transports.md names"});
    else if (!c.run(postgres::filled_in(operator_queries::peer_consumes{.service = peer.service}))[0][0].as<bool>())
        found.push_back(
            {"peer", health::warning,
             fmt::format("nothing consumes the inbox of {}: what is for it waits in the outbox", peer.service),
             "start the service with SKALD_TRANSPORT=postgres: it declares its queues"});
    else found.push_back({"peer", health::ok, fmt::format("the inbox of {} can be reached", peer.service), ""});
}
catch (pqxx::insufficient_privilege const& error) {
    found.push_back({"peer", health::problem,
                     fmt::format("this user may not send to {}: {}", peer.service, inbox::lacking_right(error)),
                     "its messages wait in the outbox until then"});
}
catch (std::exception const& error) {
    found.push_back({"peer", health::problem,
                     fmt::format("the database of {} can't be used: {}", peer.service, error.what()),
                     "its messages wait in the outbox until it can"});
}

}  // namespace

void examine_inbox(config const& settings, postgres::ownership const& owner, findings& found)
try {
    auto c = connect(settings, "doctor");
    examine_queues(c, owner.service.empty() ? "this service" : owner.service, found);
    if (settings.peers_file.empty())
        found.push_back({"peer", health::warning,
                         "SKALD_PEERS_FILE is not set: only this service itself can be reached",
                         "name the databases of the others in a file, and that file in SKALD_PEERS_FILE"});
    else
        for (auto const& one : postgres::read_service_databases(settings.peers_file, "SKALD_PEERS_FILE"))
            examine_peer(one, found);
}
catch (std::exception const& error) {
    found.push_back({"inbox", health::problem, error.what(), ""});
}

}  // namespace skald::tools
