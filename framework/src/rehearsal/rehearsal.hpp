// A rehearsal: a step as it would run now, in a transaction that is rolled back, and what it would have done.
//
// The step is run by the executor, as every delivery is; only the store under it rolls back where it would commit. See
// docs/rehearsal.md and docs/adr/0040-a-rehearsal-rolls-back.md.
#pragma once

#include "core/identity.hpp"
#include "postgres/connection.hpp"
#include "runtime/large_bodies.hpp"
#include "runtime/registry.hpp"

#include <skald/definition.hpp>

#include <nlohmann/json.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace skald::rehearsal {

/// A step that the service hosts, for one of which no message is left.
struct hosted_plan
{
    std::string definition;
    int version{1};
    std::span<planned_step const> plan;
    std::string step;
};

struct wanted
{
    core::derived_key key;
    std::string scope{};
    std::optional<std::string> data{};  // instead of what the database still has
};

/// Returns what the step would do, and how it would end (docs/rehearsal.md has the members). Leaves every table as it
/// was; what the step does outside its transaction it does. `bodies`: as the service's workers have them.
/// Throws: configuration_error if there is nothing to rehearse, with what to do. That the database is away, or that
/// another session has locked what a rehearsal reads first, is in the report.
nlohmann::json rehearse(wanted const& what, std::string const& service, postgres::connection_options options,
                        runtime::body_rules bodies, runtime::registry const& steps, std::span<hosted_plan const> plans);

/// The same for people.
std::string in_words(nlohmann::json const& report);

}  // namespace skald::rehearsal
