// Whether a saga that was compensated has left tables as they were before it.
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
    /// Throws std::invalid_argument where a service, a table or a column is not there.
    restoration(simulation& w, std::vector<restored_table> const& tables);

    /// As they are now, before the saga.
    void remember();

    /// Which rows are missing, and which are there besides (`-`, `+`); and where a primary key tells that it is the
    /// same row, which columns have changed. Empty where nothing has.
    std::string difference();

private:
    // Each row as JSON, behind its primary key as JSON, which is empty where there is none.
    using contents = std::multiset<std::pair<std::string, std::string>>;

    struct watched
    {
        node& at;
        std::string table;
        std::string query;
        contents before{};
    };

    static contents read(watched const& one);

    std::vector<watched> tables_;
};

}  // namespace skald::testing::inner
