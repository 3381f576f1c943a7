// A file that says where the databases of services are: a line `payments=postgresql://...` for each.
#pragma once

#include <string>
#include <vector>

namespace skald::postgres {

struct service_database
{
    std::string service;
    std::string url;
};

/// Empty lines and those that begin with `#` do not count. Contacts no server. Throws configuration_error that begins
/// with `setting`, where the file's name is from; it repeats no URL, since one may hold a password.
std::vector<service_database> read_service_databases(std::string const& file, std::string const& setting);

}  // namespace skald::postgres
