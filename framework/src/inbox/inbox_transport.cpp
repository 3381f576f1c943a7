#include "inbox/inbox_transport.hpp"

#include "inbox/inbox_publisher.hpp"
#include "inbox/inbox_subscription.hpp"

#include <skald/errors.hpp>

#include <map>
#include <random>
#include <stdexcept>
#include <string_view>

namespace skald::inbox {
namespace {

constexpr std::string_view skalds_exchange = "skald";

void refuse_exchanges(ports::subscriber const& who)
{
    for (auto const& one : who.handlers) {
        for (auto const& binding : one.bindings) {
            if (binding.exchange == skalds_exchange) continue;
            throw configuration_error{
                "the message handler `" + one.handler + "` is bound to the exchange `" + binding.exchange +
                "`, and SKALD_TRANSPORT=postgres has none but Skald's own: leave the exchange out, and send to `" +
                binding.routing_key + "` or `" + who.service + ".on." + one.handler +
                "`; or use SKALD_TRANSPORT=rabbitmq"};
        }
    }
}

}  // namespace

std::uint64_t inbox_transport::next_seed() const
{
    return options_.seed != 0 ? options_.seed : std::random_device{}();
}

std::unique_ptr<ports::publisher> inbox_transport::open_publisher()
{
    // Services that share a database share a connection, and get what is for whoever is bound once.
    std::map<std::string, std::shared_ptr<peer>> by_url;
    inbox_publisher::peer_connections peers;
    for (auto const& [service, url] : options_.peers) {
        if (by_url.contains(url)) {
            peers.emplace(service, by_url[url]);
            continue;
        }
        auto to = options_.database;
        to.url = url;
        to.prepares_statements = false;
        to.server = std::make_shared<postgres::server_state>();
        by_url[url] = std::make_shared<peer>(std::move(to), options_.reconnect, next_seed());
        peers.emplace(service, by_url[url]);
    }
    return std::make_unique<inbox_publisher>(std::move(peers));
}

std::unique_ptr<ports::subscription> inbox_transport::subscribe(ports::subscriber const& who)
{
    if (who.service.empty()) throw std::invalid_argument{"a service's name must not be empty"};
    if (who.prefetch == 0) throw std::invalid_argument{"a prefetch of 0 would be unlimited"};
    refuse_exchanges(who);
    return std::make_unique<inbox_subscription>(
        subscription_settings{options_.database, options_.reconnect, next_seed(), who, options_.poll_every}, log_);
}

}  // namespace skald::inbox
