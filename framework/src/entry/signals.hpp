// POST /sagas/{key}/signals/{step}: the signal that a step of a saga waits for.
#pragma once

#include "entry/routes.hpp"

namespace skald::entry_detail {

/// A route that every service has. Like one of its own it needs an Idempotency-Key, and its response is stored.
route signal_route();

}  // namespace skald::entry_detail
