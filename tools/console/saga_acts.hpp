// The acts that a saga's page offers.
#pragma once

#include "page.hpp"
#include "saga_story.hpp"

namespace skald::console {

markup saga_acts(context const& with, saga_story const& story);

}  // namespace skald::console
