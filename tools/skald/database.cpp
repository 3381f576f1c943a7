#include "database.hpp"

#include "admin/commands.hpp"
#include "commands.hpp"
#include "rabbitmq/url.hpp"
#include "worker/transports.hpp"

#include <skald/errors.hpp>

#include <pqxx/except>

#include <stdexcept>

namespace skald::tools {

postgres::connection_options database_options(config const& settings, std::string const& command)
{
    postgres::connection_options options;
    options.url = settings.database_url;
    options.application_name = "skald/" + command;
    options.lock_timeout = settings.lock_timeout;
    options.statement_timeout = settings.statement_timeout;
    options.commit_timeout = settings.commit_timeout;
    return options;
}

postgres::connection connect(config const& settings, std::string const& command)
{
    return postgres::connection{database_options(settings, command)};
}

postgres::connection connect(std::string const& command)
{
    return connect(config::from_environment(), command);
}

void refuse_without_broker(config const& settings, std::string const& command)
{
    if (worker_detail::has_no_broker(settings))
        throw configuration_error{"`skald " + command +
                                  "` works on a broker, and with SKALD_TRANSPORT=postgres there is none"};
    if (!worker_detail::uses_rabbitmq(settings)) {
        throw configuration_error{
            "`skald " + command +
            "` works on RabbitMQ. Over Kafka, on a staging system only, stop the service and set its group back: "
            "kafka-consumer-groups.sh --bootstrap-server " +
            settings.kafka_brokers +
            " --group skald.SERVICE --topic skald.SERVICE --reset-offsets --to-datetime TIME --execute; all since then "
            "comes again, and the guard absorbs what is younger than SKALD_RETENTION_DAYS"};
    }
}

bool lost_connection(postgres::connection const& c, std::exception const& error)
{
    return dynamic_cast<pqxx::broken_connection const*>(&error) != nullptr || !c.is_open();
}

void complain_if_not_replicated(postgres::connection const& c)
{
    if (c.warning().empty()) return;
    complain(std::string{admin::not_replicated} + " (" + c.warning() + ")");
}

std::string const& broker_url(config const& settings)
try {
    rabbitmq::parse_url(settings.amqp_url);
    return settings.amqp_url;
}
catch (std::invalid_argument const& error) {
    throw configuration_error{std::string{error.what()} + " (in AMQP_URL)"};
}

}  // namespace skald::tools
