// What makes the store of a service's large bodies, as skald::s3() returns it.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace skald {

struct config;

namespace ports {
class body_store;
}

namespace detail {

/// `holder`: who refers to what is kept there; letters, digits and `-`.
/// Throws configuration_error for settings that can't work.
using body_store_maker = std::function<std::shared_ptr<ports::body_store>(config const&, std::string const& holder)>;

}  // namespace detail
}  // namespace skald
