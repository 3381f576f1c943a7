// What `skald doctor` finds: one line for each check.
#pragma once

#include "postgres/migrate.hpp"

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

/// Of the database at `url`. Returns who owns it; nobody where none does, or it can't be asked.
/// Everything that goes wrong is a finding.
postgres::ownership examine_database(std::string const& url, findings& found);

/// Of the broker, and of the queues of the owner's service, which it `declares` itself or has an operator declare.
void examine_broker(std::string const& url, postgres::ownership const& owner, bool declares, findings& found);

}  // namespace skald::tools
