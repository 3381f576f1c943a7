// The home of the sagas: what it makes of the messages that come to it.
#pragma once

#include "conform/seen.hpp"

namespace skald::conform {

/// Changes `all` as the message says; false if it says nothing new: the same end or event again, or one more retry or
/// snooze of a step. Messages of other runs are ignored.
bool take_at_home(core::message const& message, std::string const& run, std::map<saga_name, told>& all);

}  // namespace skald::conform
