#include "worker/transports.hpp"

#include "inbox/inbox_transport.hpp"
#include "rabbitmq/rabbitmq_transport.hpp"

#include <skald/errors.hpp>

#include <algorithm>

namespace skald::worker_detail {
namespace {

// A service always reaches itself, whatever the file has.
std::vector<postgres::service_database> peers_of(std::string const& service, config const& settings)
{
    std::vector<postgres::service_database> peers;
    if (!settings.peers_file.empty()) peers = postgres::read_service_databases(settings.peers_file, "SKALD_PEERS_FILE");
    std::erase_if(peers, [&](auto const& one) { return one.service == service; });
    if (!service.empty()) peers.push_back({service, settings.database_url});
    return peers;
}

std::unique_ptr<ports::transport> make_inbox(std::string const& service, config const& settings,
                                             postgres::connection_options database, core::logger& log)
{
    if (settings.peers_file.empty())
        log.warning("transport.no_peers",
                    {{"error", "SKALD_PEERS_FILE is not set: no service but this one can be reached"}});
    return std::make_unique<inbox::inbox_transport>(
        inbox::options{.database = std::move(database), .peers = peers_of(service, settings)}, log);
}

std::unique_ptr<ports::transport> make_rabbitmq(std::string const& name, config const& settings, core::logger& log)
{
    rabbitmq::options options;
    options.url = settings.amqp_url;
    options.connection_name = name;
    options.declares = settings.declare;
    return std::make_unique<rabbitmq::rabbitmq_transport>(std::move(options), log);
}

std::unique_ptr<ports::transport> make_kafka(std::string const& name, config const& settings, core::logger& log,
                                             detail::transport_maker const& make)
{
    if (!make)
        throw configuration_error{"SKALD_TRANSPORT=kafka: this program has no Kafka: link skald::kafka and call "
                                  "service.transport(skald::kafka()), or use another transport"};
    return make(name, settings, log);
}

}  // namespace

std::unique_ptr<ports::transport> make_transport(std::string const& service, std::string const& name,
                                                 config const& settings, postgres::connection_options database,
                                                 core::logger& log, detail::transport_maker const& kafka)
{
    if (!has_no_broker(settings) && !settings.peers_file.empty())
        throw configuration_error{"SKALD_PEERS_FILE is of SKALD_TRANSPORT=postgres: set that too, or leave it out"};
    if (settings.transport == "kafka") return make_kafka(name, settings, log, kafka);
    if (has_no_broker(settings)) return make_inbox(service, settings, std::move(database), log);
    return make_rabbitmq(name, settings, log);
}

}  // namespace skald::worker_detail
