// One phase: three services, a constant rate of orders, and perhaps a sweep; until all sagas have ended
// and all old ones are gone.
#pragma once

#include "figures.hpp"

#include "order_plan.hpp"
#include "service_process.hpp"
#include "shop_databases.hpp"
#include "signals.hpp"

#include <filesystem>
#include <string>

namespace sweep_bench {

struct settings
{
    double orders_per_second{50};
    int seconds{60};
    int old_sagas{100'000};
    int rounds{2};
    int clients{64};
    int patience_seconds{1'800};
    std::filesystem::path services;
    std::filesystem::path logs;
    std::filesystem::path json;
    std::string commit;
    order_demo::options shop;  // the databases and the broker
};

/// Fills wallets and shelves with what `plan` has, if anything. Runs all its orders, with `old` sagas to sweep away
/// meanwhile, or, for 0, with the sweep off.
/// Throws std::runtime_error where anything went otherwise than planned, pqxx's exceptions, order_demo::interrupted.
phase_figures run_phase(settings const& chosen, order_demo::signals const& interruptions,
                        order_demo::shop_databases& databases, order_demo::order_plan const& plan, std::string name,
                        int old);

}  // namespace sweep_bench
