#include "inbox/inbox_transport.hpp"

#include "inbox/inbox_publisher.hpp"
#include "inbox/inbox_subscription.hpp"

#include <skald/errors.hpp>

#include <random>
#include <stdexcept>

namespace skald::inbox {
namespace {

void refuse_bindings(ports::subscriber const& who)
{
    for (auto const& one : who.handlers)
        if (!one.bindings.empty())
            throw configuration_error{
                "the message handler `" + one.handler +
                "` has bindings, and SKALD_TRANSPORT=postgres has no exchanges to bind to: take them out, and send to "
                "`" +
                who.service + ".on." + one.handler + "`; or use SKALD_TRANSPORT=rabbitmq"};
}

}  // namespace

std::uint64_t inbox_transport::next_seed() const
{
    return options_.seed != 0 ? options_.seed : std::random_device{}();
}

std::unique_ptr<ports::publisher> inbox_transport::open_publisher()
{
    inbox_publisher::peer_connections peers;
    for (auto const& [service, url] : options_.peers) {
        auto to = options_.database;
        to.url = url;
        to.server = std::make_shared<postgres::server_state>();
        to.database = std::make_shared<postgres::database_identity>();
        peers.emplace(service, std::make_unique<peer>(std::move(to), options_.reconnect, next_seed()));
    }
    return std::make_unique<inbox_publisher>(std::move(peers));
}

std::unique_ptr<ports::subscription> inbox_transport::subscribe(ports::subscriber const& who)
{
    if (who.service.empty()) throw std::invalid_argument{"a service's name must not be empty"};
    if (who.prefetch == 0) throw std::invalid_argument{"a prefetch of 0 would be unlimited"};
    refuse_bindings(who);
    return std::make_unique<inbox_subscription>(
        subscription_settings{options_.database, options_.reconnect, next_seed(), who, options_.poll_every}, log_);
}

}  // namespace skald::inbox
