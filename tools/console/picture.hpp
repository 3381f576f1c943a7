// A saga as a picture: services are lanes, steps are stations from left to right, and compensation runs back beneath
// them. SVG without a script and without a style of its own. Pure.
#pragma once

#include "markup.hpp"
#include "saga_story.hpp"

namespace skald::console {

markup draw(saga_story const& story);

/// The same in a sentence, for those who can't see it.
std::string describe(saga_story const& story);

}  // namespace skald::console
