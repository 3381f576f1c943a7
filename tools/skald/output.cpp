#include "commands.hpp"

#include <cstdio>

namespace skald::tools {

void output::tell(std::string const& sentence, nlohmann::json const& object) const
{
    std::puts((json ? object.dump() : sentence).c_str());
}

}  // namespace skald::tools
