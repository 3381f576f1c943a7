// The last writes of a transaction, as the text that goes before COMMIT.
#pragma once

#include "ports/store.hpp"

#include <string>

namespace skald::postgres {

std::string changes_text(ports::changes const& what);

}  // namespace skald::postgres
