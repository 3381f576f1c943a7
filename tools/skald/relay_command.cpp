#include "commands.hpp"

#include "core/log.hpp"
#include "postgres/postgres_outbox.hpp"
#include "rabbitmq/rabbitmq_transport.hpp"
#include "runtime/relay.hpp"
#include "worker/signals.hpp"

#include <skald/config.hpp>

#include <random>
#include <thread>

namespace skald::tools {

int relay(bool until_empty, output const& out)
{
    auto const settings = config::from_environment("relay");
    worker_detail::signals const signals;
    core::stderr_logger log{"relay", core::parse_severity(settings.log_level)};
    rabbitmq::options broker;
    broker.url = settings.amqp_url;
    broker.connection_name = "skald/relay";
    rabbitmq::rabbitmq_transport transport{broker, log};
    auto const publisher = transport.open_publisher();

    postgres::connection_options database;
    database.url = settings.database_url;
    database.application_name = "skald/relay";
    database.lock_timeout = settings.lock_timeout;
    database.statement_timeout = settings.statement_timeout;
    auto const mark = std::make_shared<postgres::low_water>();
    postgres::postgres_outbox outbox{database, mark};
    postgres::postgres_outbox other{database, mark};

    runtime::relay_options options;
    options.batch_max = settings.relay_batch_max;
    options.poll = settings.relay_poll;
    runtime::outbound nothing_else;
    runtime::stop_flag stop;
    runtime::relay relay{options, {outbox, other}, *publisher, nothing_else, stop, log, std::mt19937_64{std::random_device{}()}};

    if (until_empty) {
        if (!publisher->available()) throw std::runtime_error{"the broker is away: " + publisher->trouble()};
        auto const moved = relay.move_due();
        out.tell(std::to_string(moved) + " messages moved", {{"moved", moved}});
        return 0;
    }
    std::jthread const moving{[&] { relay.run(); }};
    while (!signals.wait(std::chrono::minutes{1})) continue;
    stop.stop();
    nothing_else.notify();
    return 0;
}

}  // namespace skald::tools
