// What a test may name of the steps that it hosts: the parts whose code runs on its own.
#pragma once

#include "testing/simulation.hpp"

#include <skald/testing/crash_point.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace skald::testing::inner {

/// `charge`, `charge.compensate`, `charge.call`, `charge.look`, `charge.settle`, `approve.arrived`, ...
struct step_part
{
    std::string name;
    bool may_reject{};
    bool is_call{};  // without a transaction, made by the step `name` without ".call"
};

/// Of every step and message handler that is hosted.
std::vector<step_part> parts_of(simulation const& all);

/// Throws std::invalid_argument if none has that name. The message begins with `what`, as the test wrote it, and lists
/// those that there are.
step_part part_named(simulation const& all, std::string const& what, std::string_view name);

/// Throws std::invalid_argument if nothing of that name can reach the point. An empty name means whatever reaches it.
void require_reachable(simulation const& all, crash_point point, std::string_view name);

}  // namespace skald::testing::inner
