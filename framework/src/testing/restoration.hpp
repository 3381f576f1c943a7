// Checks whether a compensated saga has left the user's tables as they were before it.
#pragma once

#include "testing/simulation.hpp"

#include <skald/testing/proof.hpp>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace skald::testing::inner {

/// Threads: one. For one proof.
class restoration
{
public:
    /// Throws std::invalid_argument if a service, a table or a column does not exist.
    restoration(simulation& w, std::vector<remaining> const& remains);

    /// Records the tables as they are now, before the saga.
    void remember();

    /// The rows that are missing (`-`) and the extra ones (`+`). If the primary key shows that both are the same row,
    /// the columns that changed. Empty if nothing differs.
    std::string difference();

private:
    // Each row as JSON, preceded by its primary key as JSON, which is empty if there is none.
    using contents = std::multiset<std::pair<std::string, std::string>>;

    struct watched
    {
        node& at;
        std::string table;
        std::string query;
        contents before{};
    };

    static void require_all_to_be(simulation& w, std::vector<remaining> const& remains);
    static contents read(watched const& one);

    std::vector<watched> tables_;
};

}  // namespace skald::testing::inner
