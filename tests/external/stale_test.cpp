// Owners whose lease has ended: what they still record is refused, and what they still hold is somebody else's.
#include "external/bank.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace skald::test;
using namespace skald;
using ports::started_steps;

namespace {

constexpr std::size_t sagas = 100;

/// Its call has returned, and it records that.
void settle(stepped_service& till, started_steps::taken const& row)
{
    auto message = row.message;
    message.destination = till.name;
    auto task = std::move(till.route({delivery_of(std::move(message))}).front());
    task.second = runtime::second_transaction{
        row.id, true, 0, runtime::second_transaction::answer{nlohmann::json(receipt{"r-" + row.id.saga.key}).dump()}};
    till.record(std::move(task));
}

std::vector<started_steps::taken> take_all(stepped_service& till)
{
    till.make_started_due();  // as if every lease had ended
    auto rows = till.started().take("an owner", ports::started_kind::call, "", sagas);
    REQUIRE(rows.size() == sagas);
    return rows;
}

}  // namespace

TEST_CASE(
    "of 1,000 settles by owners whose lease has ended, 1,000 are refused, and the last owner's settle is recorded once")
{
    bank_services all;
    all.host();
    auto& till = all.at("till");
    for (std::size_t n = 0; n < sagas; ++n) all.start(buy, purchase{"p", 100}, "k" + std::to_string(n));
    all.run();

    std::vector<started_steps::taken> stale;
    for (int owner = 0; owner < 10; ++owner)
        for (auto& row : take_all(till)) stale.push_back(std::move(row));
    auto const current = take_all(till);

    for (auto const& row : stale) settle(till, row);
    CHECK(stale.size() == 1'000);
    CHECK(till.log().count("step.outdated") == 1'000);
    CHECK(till.db.one("SELECT count(*) FROM effect WHERE what LIKE 'settle%'") == "0");
    for (auto const& row : stale) {
        started_steps::held const still{row.id, "{}"};
        CHECK_FALSE(till.started().renew({&still, 1}).front().is_ours);
        CHECK(till.started().release({row.id}) == ports::release_result::not_ours);
    }

    for (auto const& row : current) settle(till, row);
    for (auto const& row : stale) settle(till, row);
    CHECK(till.log().count("step.outdated") == 2'000);
    CHECK(till.db.one("SELECT count(*) FROM effect WHERE what LIKE 'settle%'") == "100");
    CHECK(all.started() == "");
    all.run();
    CHECK(all.at("shop").db.one("SELECT count(*) FROM skald.saga WHERE status = 'completed'") == "100");
}
