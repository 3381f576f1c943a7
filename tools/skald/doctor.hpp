// The findings of `skald doctor`: one line for each check.
#pragma once

#include "ports/transport.hpp"
#include "postgres/migrate.hpp"

#include <skald/config.hpp>

#include <nlohmann/json.hpp>

#include <exception>
#include <string>
#include <vector>

namespace skald::tools {

enum class health { ok, warning, problem };

struct finding
{
    std::string check;
    health level{};
    std::string means;   // what was found, and what it means
    std::string remedy;  // what to do; empty if nothing
};

using findings = std::vector<finding>;

/// That something in the database could not be looked at, why, and what to do about it.
finding not_examined(std::string check, std::exception const& error);

/// What a database says of what should be at the broker.
struct expected
{
    postgres::ownership owner{};
    std::vector<ports::handler_queue> handlers{};
    std::vector<std::string> others{};  // the services that sagas of this home, which are under way, go to
    bool has_broker{true};              // as the settings say
};

/// Checks the database at `url`. The owner is empty if it has none or can't be queried. Everything that goes wrong is a
/// finding.
expected examine_database(std::string const& url, bool has_broker, findings& found);

/// Checks the broker and the queues of the owner's service. `declares`: it declares them itself, not an operator.
void examine_broker(std::string const& url, expected const& at_broker, bool declares, findings& found);

/// Checks whether the store of large bodies takes and gives them, and has those that rows of the database refer to.
void examine_bodies(config const& settings, postgres::ownership const& owner, findings& found);

/// Checks the inbox of the owner's service, and whether those of its peers can be reached: where there is no broker.
void examine_inbox(config const& settings, postgres::ownership const& owner, findings& found);

}  // namespace skald::tools
