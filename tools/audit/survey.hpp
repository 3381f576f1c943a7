// Looks at all databases, key by key, for what breaks an invariant.
#pragma once

#include "audit/rules.hpp"
#include "postgres/service_databases.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace skald::audit {

using postgres::service_database;

struct survey_options
{
    std::vector<service_database> databases;
    std::string file;  // that names them
    std::chrono::seconds grace{std::chrono::minutes{5}};
    std::function<queues_seen()> queues;  // may be empty
    std::function<void()> wait;           // between two looks
};

struct surveyed
{
    std::size_t keys{}, sagas{}, records{};
};

/// The one of that service. Throws configuration_error if it is not there.
service_database const& find_service(std::vector<service_database> const& all, std::string const& service,
                                     std::string const& file);

/// Sagas run meanwhile, and no moment is the same for two databases: what a second look does not find again, unchanged,
/// is not reported. Throws what pqxx throws; configuration_error for a database that is not the service's.
surveyed survey(survey_options const& options, findings& found);

}  // namespace skald::audit
