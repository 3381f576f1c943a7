#include "rabbitmq/rabbitmq_transport.hpp"

#include "rabbitmq/rabbitmq_publisher.hpp"
#include "rabbitmq/rabbitmq_subscription.hpp"
#include "rabbitmq/topology.hpp"

#include <random>
#include <stdexcept>
#include <utility>

namespace skald::rabbitmq {
namespace {

void check(options const& settings)
{
    if (settings.heartbeat_seconds < 0 || settings.heartbeat_seconds > 65535)
        throw std::invalid_argument{"heartbeat_seconds must be from 0 to 65535"};
    if (settings.connect_timeout.count() <= 0) throw std::invalid_argument{"connect_timeout must be positive"};
    if (settings.confirm_window == 0) throw std::invalid_argument{"confirm_window must be positive"};
}

connection_settings settings_for(options const& settings, address const& where, char const* role)
{
    return {where, settings.connection_name + "/" + role, settings.heartbeat_seconds, settings.connect_timeout};
}

}  // namespace

rabbitmq_transport::rabbitmq_transport(options settings, core::logger& log)
    : options_{std::move(settings)}, where_{parse_url(options_.url)}, log_{log}
{
    check(options_);
    check_files(where_);
    options_.url.clear();  // it may hold a password; where_ is used instead
}

std::uint64_t rabbitmq_transport::next_seed() const
{
    return options_.seed != 0 ? options_.seed : std::random_device{}();
}

std::unique_ptr<ports::publisher> rabbitmq_transport::open_publisher()
{
    publisher_settings settings;
    settings.connection = settings_for(options_, where_, "publisher");
    settings.reconnect = options_.reconnect;
    settings.confirm_window = options_.confirm_window;
    settings.seed = next_seed();
    settings.declares = options_.declares;
    settings.barred = options_.barred;
    return std::make_unique<rabbitmq_publisher>(std::move(settings), log_);
}

std::unique_ptr<ports::subscription> rabbitmq_transport::subscribe(ports::subscriber const& who)
{
    check_service_name(who.service);
    if (who.prefetch == 0) throw std::invalid_argument{"a prefetch of 0 would be unlimited"};
    subscription_settings settings;
    settings.connection = settings_for(options_, where_, "consumer");
    settings.reconnect = options_.reconnect;
    settings.seed = next_seed();
    settings.who = who;
    settings.rebind_every = options_.rebind_every;
    settings.declares = options_.declares;
    return std::make_unique<rabbitmq_subscription>(std::move(settings), log_);
}

}  // namespace skald::rabbitmq
