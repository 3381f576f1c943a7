#include "rabbitmq/provision.hpp"

#include "rabbitmq/connection.hpp"
#include "rabbitmq/topology.hpp"
#include "sockets/watchdog.hpp"

#include <chrono>

namespace skald::rabbitmq {

void provision(std::string const& url, std::string const& service, std::string const& database)
{
    check_service_name(service);
    auto const where = parse_url(url);
    sockets::socket_interrupter interrupter;
    sockets::watchdog dog{interrupter};
    sockets::watched const guard{dog, sockets::watchdog::clock::now() + std::chrono::seconds{30}};
    connection broker{{where, "skald/declare"}, interrupter};
    // The queue of the database first: if the messages belong to another one, nothing is created for this one.
    declare_queues(broker, service, database);
    declare_marker(broker, service, database);
    broker.close();
}

}  // namespace skald::rabbitmq
