// Sagas that ended long ago, in all three databases, and what is left of them.
#pragma once

#include "shop_databases.hpp"

#include <string>

namespace sweep_bench {

/// Threads: one.
class old_sagas
{
public:
    /// `databases` must live longer, and hold a saga that has completed.
    old_sagas(order_demo::shop_databases& databases, std::string key_prefix);

    void make(int count);

    /// Whether the home still has any. Cheap.
    bool are_some_left();

    /// Throws std::runtime_error if any row of any of them is left in any database. Not cheap.
    void check_that_none_is_left();

private:
    order_demo::shop_databases& databases_;
    std::string key_prefix_;
};

/// The same start for each phase: no dead rows, fresh statistics, nothing left to write out.
void settle_down(order_demo::shop_databases& databases);

}  // namespace sweep_bench
