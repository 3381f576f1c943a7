#include "database.hpp"

#include <skald/config.hpp>

namespace skald::tools {

postgres::connection connect()
{
    auto const settings = config::from_environment("skald");
    postgres::connection_options options;
    options.url = settings.database_url;
    options.application_name = "skald/cli";
    options.lock_timeout = settings.lock_timeout;
    options.statement_timeout = settings.statement_timeout;
    return postgres::connection{options};
}

}  // namespace skald::tools
