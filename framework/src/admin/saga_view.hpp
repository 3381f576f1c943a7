// A saga as its home's database shows it.
#pragma once

#include "admin/explanation.hpp"
#include "core/identity.hpp"
#include "postgres/connection.hpp"

#include <nlohmann/json.hpp>
#include <pqxx/transaction_base>

#include <optional>
#include <string>

namespace skald::admin {

/// Everything that the home knows about a saga. Nothing if there is no such saga. Throws what pqxx throws.
std::optional<saga_facts> find_saga(postgres::connection& c, core::saga_id const& id);

/// The definition that it is of.
struct definition_id
{
    std::string name;
    int version{};
};
std::optional<definition_id> find_definition(pqxx::transaction_base& tx, core::saga_id const& id);

/// {"key","scope","definition","status","reason","created_at","finished_at","deadline_at",
/// "steps":[{"name","service","kind","status","attempts","at","error","compensation":{...}}]}. A step about which
/// nothing is known yet has the status `pending`.
nlohmann::json to_json(saga_facts const& saga);

/// For the saga's customer: the same without error texts, which may come from any database or program. A rejected step
/// has the "reason" that it gave, and so has its saga; what an operator wrote is not there either.
nlohmann::json to_customer_json(saga_facts const& saga);

/// The same as to_json() with "explanation" and "command": {"action","by","at","reason"}. For operators: it names
/// people and commands.
nlohmann::json to_operator_json(saga_facts const& saga);

}  // namespace skald::admin
