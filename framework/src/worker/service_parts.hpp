// What a service was given, as a worker and the test kit take it over.
#pragma once

#include "entry/routes.hpp"
#include "postgres/migrate.hpp"
#include "runtime/registry.hpp"

#include <skald/service.hpp>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace skald::detail {

/// One step, or message handler, with its service's hooks around it.
struct service_step
{
    std::string definition;  // empty: a handler
    std::span<planned_step const> plan, retired;
    std::string name;
    runtime::registered_step hosted;
};

struct service_parts
{
    /// Throws configuration_error that names a step which a definition gives the service and which it does not host, or
    /// not in a version whose data it could read.
    void check_complete() const;

    /// Throws configuration_error if a message handler shares its name.
    void check_names() const;

    std::string name;
    std::vector<service_step> steps;
    std::shared_ptr<step_hooks> hooks{std::make_shared<step_hooks>()};  // each step refers to them
    std::vector<postgres::migration> migrations;
    entry_detail::route_table routes;
    std::map<std::string, dependency_limits> dependencies;
    front_maker front;          // empty: there is none
    body_store_maker bodies;    // for SKALD_BODY_STORE=s3:...; empty: there is none
    transport_maker transport;  // beside those that every program has; empty: none
};

}  // namespace skald::detail
