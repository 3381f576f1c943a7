#include "database.hpp"

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

}  // namespace skald::tools
