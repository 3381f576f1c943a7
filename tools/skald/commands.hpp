// The commands of `skald`: each reads its settings from the environment and returns the exit code.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace skald::tools {

/// How a command tells what it did: a sentence for people, or one JSON object for programs.
struct output
{
    bool json{};
    void tell(std::string const& sentence, nlohmann::json const& object) const;
};

/// Throws configuration_error, and what pqxx throws.
int migrate(std::string const& service, output const& out);
int relay(bool until_empty, output const& out);

}  // namespace skald::tools
