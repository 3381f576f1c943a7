#include "commands.hpp"

#include "postgres/migrate.hpp"

#include <skald/config.hpp>

namespace skald::tools {

int migrate(std::string const& service, output const& out)
{
    auto const settings = config::from_environment(service.empty() ? "skald" : service);
    auto const applied = postgres::migrate(settings.database_url, service);

    std::string sentence = applied.empty() ? "the schema is up to date" : "applied:";
    for (auto const& name : applied) sentence += ' ' + name;
    out.tell(sentence, {{"applied", applied}});
    return 0;
}

}  // namespace skald::tools
