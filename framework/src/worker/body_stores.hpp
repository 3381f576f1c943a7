// Where a service keeps its large bodies, by its settings.
#pragma once

#include "ports/body_store.hpp"
#include "runtime/large_bodies.hpp"

#include <skald/config.hpp>
#include <skald/detail/body_store_maker.hpp>

#include <memory>
#include <string>

namespace skald::worker_detail {

runtime::body_rules body_rules_of(std::string const& service, config const& settings);

/// Throws configuration_error if the settings name a store that the service was built without.
void need_body_store(std::string const& service, config const& settings, detail::body_store_maker const& make);

/// Null: they are kept in the service's own database, whose id is `database`. `make`: for what is neither that nor a
/// directory. Throws what that and need_body_store() throw.
std::shared_ptr<ports::body_store> make_body_store(std::string const& service, std::string const& database,
                                                   config const& settings, detail::body_store_maker const& make);

}  // namespace skald::worker_detail
