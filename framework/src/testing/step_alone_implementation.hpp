// The implementation of step_alone: a store's transaction that is never committed.
#pragma once

#include "postgres/postgres_store.hpp"
#include "skald_testing_queries.hpp"

#include <skald/testing/step_alone.hpp>

#include <pqxx/pqxx>

#include <string>
#include <vector>

namespace skald::testing {

struct step_alone::implementation
{
    explicit implementation(postgres::connection_options options) : store{std::move(options)} {}

    std::string transaction()
    {
        return store.unit().tx().exec(std::string{testing_queries::transaction})[0][0].c_str();
    }

    postgres::postgres_store store;
    std::string began;  // the id of the transaction
    std::vector<message_view> published;
};

}  // namespace skald::testing
