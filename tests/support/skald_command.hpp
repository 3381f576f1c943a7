// `skald` as an operator runs it: with the variables of a service on that database.
#pragma once

#include "support/shop.hpp"

namespace skald::test {

struct told
{
    int code{};
    std::string text;
    json object() const { return json::parse(text.substr(text.find('{'))); }
};

inline told run_skald(fresh_database const& database, std::vector<std::string> const& words, bool with_broker = true)
{
    auto variables = shop::variables(database);
    if (!with_broker) variables.erase("AMQP_URL");
    service_process command{SKALD_TOOL, words, variables};
    command.start();
    auto const end = command.wait();
    return {end.code.value_or(-1), command.log()};
}

/// The worst level of a check.
inline std::string level(json const& doctor, std::string const& check)
{
    std::string worst = "none";
    for (auto const& one : doctor["checks"])
        if (one["check"] == check) worst = one["level"];
    return worst;
}

}  // namespace skald::test
