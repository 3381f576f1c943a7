#include "old_sagas.hpp"

#include "sweep_bench_sql.hpp"

#include <stdexcept>

#include <fmt/format.h>

namespace sweep_bench {
namespace {

using order_demo::orders;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // exec_params: the one form that libpqxx 6 and 7 share

template <typename... Values>
pqxx::result ask(pqxx::connection& c, std::string_view text, Values const&... values)
{
    return pqxx::nontransaction{c}.exec_params(std::string{text}, values...);
}

#pragma GCC diagnostic pop

}  // namespace

old_sagas::old_sagas(order_demo::shop_databases& databases, std::string key_prefix)
    : databases_{databases}, key_prefix_{std::move(key_prefix)}
{}

void old_sagas::make(int count)
{
    auto const found = ask(databases_.at(orders), sql::template_saga);
    if (found.empty()) throw std::runtime_error{"there is no completed saga to make old ones from"};
    auto const key = found[0][0].as<std::string>();
    for (std::size_t i = 0; i < order_demo::service_count; ++i)
        ask(databases_.at(i), sql::copy_records, key, key_prefix_, count);
    for (auto const text : {sql::copy_sagas, sql::copy_answers, sql::copy_progress})
        ask(databases_.at(orders), text, key, key_prefix_, count);
}

bool old_sagas::are_some_left()
{
    return ask(databases_.at(orders), sql::are_some_left)[0][0].as<bool>();
}

void old_sagas::check_that_none_is_left()
{
    for (std::size_t i = 0; i < order_demo::service_count; ++i)
        if (auto const left = ask(databases_.at(i), sql::count_leftovers, key_prefix_)[0][0].as<std::int64_t>();
            left > 0)
            throw std::runtime_error{fmt::format("the sweep has left {} rows behind in the database of {}", left,
                                                 order_demo::service_names[i])};
}

void settle_down(order_demo::shop_databases& databases)
{
    for (std::size_t i = 0; i < order_demo::service_count; ++i) {
        pqxx::nontransaction{databases.at(i)}.exec("VACUUM (ANALYZE)");
        pqxx::nontransaction{databases.at(i)}.exec("CHECKPOINT");
    }
}

}  // namespace sweep_bench
