// What an operator does at a saga's home, and is told there.
#pragma once

#include "admin/commands.hpp"
#include "admin/saga_view.hpp"
#include "postgres/connection.hpp"

#include <string>

namespace skald::test {

/// The refusal, or nothing. `home`: a connection string.
inline std::string give_order(std::string const& home, std::string const& action, std::string const& reason = {},
                              std::string const& key = "1")
{
    postgres::connection c{{.url = home}};
    auto const done = admin::issue(c, {action, {"", key}, reason, "eve"});
    return done.contains("refused") ? done["refused"].get<std::string>() : "";
}

inline std::string explanation_of(std::string const& home, std::string const& key = "1")
{
    postgres::connection c{{.url = home}};
    return admin::explain(admin::find_saga(c, {"", key}).value());
}

}  // namespace skald::test
