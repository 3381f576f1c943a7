// The mutants, and the runs that must notice them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shop_system.hpp"

namespace skald::crash {

struct mutant
{
    std::string_view name;
    std::vector<std::string_view> runs;  // by name; one of them must fail
    bool in_sql{};                       // it changes the guard's functions, and not the services
};

std::vector<mutant> const& all_mutants();

/// Changes the guard of every database to what the mutant says.
void mutate_guard(shop_system& shop, std::string_view name);

}  // namespace skald::crash
