// A depot whose step `weigh` has failed once and waits for its retry; a test rehearses that with a script of its own.
#pragma once

#include "support/depot.hpp"
#include "support/rehearsed.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace skald::test {

class waiting_depot : public depot
{
public:
    waiting_depot()
    {
        at("depot").options_of_steps = {
            .retry = {.attempts_max = 3, .first = std::chrono::hours{1}, .longest = std::chrono::hours{1}}};
        weigh = [](auto&, auto&) -> skald::outcome { throw std::runtime_error{"the scales are away"}; };
        go();
        REQUIRE(record("weigh") == "retrying|1|0");
        weigh = [](auto&, auto&) { return skald::done(); };
    }

    /// With all four scripts as they are now.
    nlohmann::json rehearsed(std::string const& key)
    {
        skald::service of{"depot"};
        of.host(send, steps::pack, scripted{"pack", pack, undo_pack});
        of.host(send, steps::weigh, scripted{"weigh", weigh, undo_weigh}, {.retry = {.attempts_max = attempts_max}});
        of.host(send, steps::load, scripted_pivot{load});
        of.host(send, steps::sign, scripted_retriable{sign});
        auto const before = compares_rows ? every_row(db()) : "";
        auto report = rehearse(of, url.empty() ? db().url() : url, key, "", {}, settings);
        CHECK((compares_rows ? every_row(db()) : "") == before);
        return report;
    }

    nlohmann::json rehearsed(script now)
    {
        weigh = std::move(now);
        return rehearsed("k:weigh");
    }

    undo_script undo_pack = [](auto&, auto&) {};
    int attempts_max{3};
    bool compares_rows{true};
    config settings;
    std::string url;  // instead of the database's own
};

}  // namespace skald::test
