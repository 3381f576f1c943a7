#include "commands.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>

namespace skald::tools {

void output::tell(std::string const& sentence, nlohmann::json const& object) const
{
    std::puts((json ? object.dump() : sentence).c_str());
}

int output::refuse(std::string const& why) const
{
    if (json) tell(why, {{"refused", why}});
    else std::fprintf(stderr, "skald: %s\n", why.c_str());
    return 1;
}

void output::add_flag(CLI::App& command)
{
    command.add_flag("--json", json, "print one JSON object");
}

}  // namespace skald::tools
