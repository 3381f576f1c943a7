// What `skald doctor` finds: one line for each check.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace skald::tools {

enum class health { ok, warning, problem };

struct finding
{
    std::string check;
    health level{};
    std::string means;   // what was found, and what that means
    std::string remedy;  // what to do; empty where nothing
};

using findings = std::vector<finding>;

/// Of the database at `url`. Returns the service that owns it; empty where none does, or it can't be asked.
/// Everything that goes wrong is a finding.
std::string examine_database(std::string const& url, findings& found);

/// Of the broker, and of the queues of `service`.
void examine_broker(std::string const& url, std::string const& service, findings& found);

}  // namespace skald::tools
