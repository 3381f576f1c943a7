// Keeps in the table which dependencies of this process are ill, for people who look from outside.
#pragma once

#include "core/breaker.hpp"
#include "ports/started.hpp"

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace skald::runtime {

/// A dependency as a process sees it now.
struct dependency_state
{
    std::string name;
    core::breaker_status status;
};

/// Threads: the one that owns `table`.
class breaker_notes
{
public:
    /// `table` outlives this.
    breaker_notes(std::string owner, ports::started_steps& table) : owner_{std::move(owner)}, table_{table} {}

    /// Writes what has changed. As long as all are well that is nothing. Throws ports::fault.
    void update(std::vector<dependency_state> const& all);

    /// A process that ends is not ill.
    void forget_all() noexcept;

private:
    using clock = std::chrono::steady_clock;
    struct written
    {
        core::breaker_state state{};
        clock::time_point at;
    };

    void write(dependency_state const& one, clock::time_point now);

    std::string owner_;
    ports::started_steps& table_;
    std::map<std::string, written> written_;  // by name: what the table has
};

}  // namespace skald::runtime
