// The implementation of step_alone: a store's transaction that is never committed.
#pragma once

#include "postgres/postgres_store.hpp"
#include "skald_testing_queries.hpp"
#include "testing/node.hpp"

#include <skald/testing/step_alone.hpp>

#include <pqxx/pqxx>

#include <string>
#include <vector>

namespace skald::testing {

/// What its steps see of their transaction, with the harness's clock.
struct step_alone::implementation final : detail::unit_of_work
{
    explicit implementation(inner::node& service) : at{service}, store{service.database().options()} {}

    pqxx::transaction_base& tx() override { return store.unit().tx(); }
    std::string const& prepared(std::string_view text) override { return store.unit().prepared(text); }
    core::instant now() const override { return store.claimed_at() + at.ahead(); }

    std::string transaction() { return tx().exec(std::string{testing_queries::transaction})[0][0].c_str(); }

    inner::node& at;
    postgres::postgres_store store;
    std::string began;  // the id of the transaction
    std::vector<message_view> published;
};

}  // namespace skald::testing
