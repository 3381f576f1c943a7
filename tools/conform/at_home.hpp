// The home of the sagas: what it makes of the messages that come to it.
#pragma once

#include "conform/seen.hpp"

namespace skald::conform {

/// Changes `all` as the message says. Messages of other runs are ignored.
void take_at_home(core::message const& message, std::string const& run, std::map<saga_name, told>& all);

}  // namespace skald::conform
