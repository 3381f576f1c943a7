// What is counted of a step's deliveries is what became of them in the database.
#include "runtime/executor.hpp"
#include "support/doubtful_store.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

using namespace skald;
using metrics::step_end;

namespace {

/// A lane of payments with an executor of the test's own, and the delivery of an order's charge.
struct counted_lane
{
    counted_lane()
    {
        steps.add("place-order", "charge-payment",
                  {std::make_unique<detail::typed_step<order_saga::order, order_saga::charge_payment>>(
                       order_saga::charge_payment{}),
                   {.retry = {.attempts_max = 1}},
                   step_kind::compensatable,
                   1});
    }

    runtime::task charge(int returns = 0) { return charge(sent, returns); }
    runtime::task charge(core::message const& m, int returns)
    {
        auto d = test::delivery_of(m);
        d.returns = returns;
        return runtime::route(d, "payments", steps);
    }

    /// Runs it again as the dispatcher does, until it is processed.
    void run(runtime::task t)
    {
        for (auto result = lane.run({&t, 1}); !result.processed(); result = lane.run({&t, 1})) {
            auto const& met = *result.not_processed;
            t.put_back(met.why, met.then, true);
        }
    }

    metrics::direction_metrics& forward() { return steps.find("place-order", "charge-payment")->counts->forward; }
    std::uint64_t ended(step_end how) { return forward().ends[how].value(); }
    std::uint64_t rolled_back(runtime::failure why)
    {
        return forward().rolled_back.at(static_cast<std::size_t>(why)).value();
    }

    test::stepped_shop shop;
    core::message const sent{shop.order_up_to("charge-payment")};
    runtime::registry steps;
    runtime::memory_source out;
    core::silent_logger log;
    test::doubtful_store store{shop.at("payments").db.url()};
    std::shared_ptr<runtime::lane_counts> counts{std::make_shared<runtime::lane_counts>()};
    runtime::executor lane{"payments", store, out, log, std::mt19937_64{1}, counts};
};

std::uint64_t all_of(auto const& distribution)
{
    std::uint64_t sum = 0;
    for (auto const one : distribution.counts) sum += one;
    return sum;
}

}  // namespace

TEST_CASE("a delivery that comes three times is one completed and two duplicates, and a copy adds no time of a run")
{
    counted_lane l;
    for (int i = 0; i < 3; ++i) l.run(l.charge());
    CHECK(l.ended(step_end::completed) == 1);
    CHECK(l.ended(step_end::duplicate) == 2);
    CHECK(all_of(l.forward().claim.now()) == 3);
    CHECK(all_of(l.forward().run.now()) == 1);
    CHECK(all_of(l.forward().commit.now()) == 1);
    CHECK(all_of(l.forward().batch.now()) == 1);
    auto const seen = l.counts->seen.take();
    REQUIRE(seen.size() == 1);
    CHECK(seen.begin()->first == runtime::deliveries_seen::step{"", "1", "charge-payment", "orders"});
    CHECK(seen.begin()->second.more == 2);
    CHECK(seen.begin()->second.duplicates == 2);
}

TEST_CASE("what the broker delivers again and takes effect now is a repeated delivery, and no duplicate")
{
    counted_lane l;
    l.run(l.charge(1));
    CHECK(l.ended(step_end::completed) == 1);
    auto const seen = l.counts->seen.take();
    REQUIRE(seen.size() == 1);
    CHECK(seen.begin()->second.more == 1);
    CHECK(seen.begin()->second.duplicates == 0);
}

TEST_CASE("a step that is met once costs no memory")
{
    counted_lane l;
    l.run(l.charge());
    CHECK(l.counts->seen.take().empty());
}

TEST_CASE("a rejection counts as one, and a parked delivery under its reason")
{
    counted_lane l;
    l.shop.at("payments").db.run("UPDATE wallet SET cents = 0");
    l.run(l.charge());
    CHECK(l.ended(step_end::rejected) == 1);

    auto wrong = l.charge();
    wrong.delivery.message.body = "x";
    auto const of = [&](std::string_view reason) {
        auto const at = std::ranges::find(metrics::parked_reasons, reason) - metrics::parked_reasons.begin();
        return l.counts->metrics.parked.at(static_cast<std::size_t>(at)).value();
    };
    l.run(runtime::route(wrong.delivery, "payments", l.steps));
    CHECK(l.ended(step_end::parked) == 1);
    CHECK(of("mismatch") == 1);
}

TEST_CASE("a COMMIT in doubt that got through is one completed, and resolved as committed")
{
    counted_lane l;
    l.store.next = test::doubtful_store::loses::the_answer;
    l.run(l.charge());
    auto const& doubts = l.counts->metrics.doubts;
    CHECK(doubts.in_doubt.value() == 1);
    CHECK(doubts.had_committed.value() == 1);
    CHECK(doubts.had_rolled_back.value() == 0);
    CHECK(l.ended(step_end::completed) == 1);
    CHECK(l.ended(step_end::duplicate) == 0);
    CHECK(l.counts->seen.take().empty());
}

TEST_CASE("a COMMIT in doubt that did not get through is resolved as rolled back, and the step completes once")
{
    counted_lane l;
    l.store.next = test::doubtful_store::loses::the_commit;
    l.run(l.charge());
    auto const& doubts = l.counts->metrics.doubts;
    CHECK(doubts.in_doubt.value() == 1);
    CHECK(doubts.had_committed.value() == 0);
    CHECK(doubts.had_rolled_back.value() == 1);
    CHECK(l.rolled_back(runtime::failure::in_doubt) == 1);
    CHECK(l.ended(step_end::completed) == 1);
    CHECK_MESSAGE(all_of(l.forward().commit.now()) == 2, "what failed has taken its time too");
}

TEST_CASE("a key that another session has is no refusal of those that came with it")
{
    counted_lane l;
    std::vector<runtime::task> both;
    both.push_back(l.charge());
    both.push_back(l.charge(l.shop.order_up_to("charge-payment", "2"), 0));
    pqxx::connection other{l.shop.at("payments").db.url()};
    pqxx::work holding{other};
    holding.exec("SELECT skald.claim(ARRAY[''], ARRAY['2'], ARRAY['charge-payment'], ARRAY[sha256('x')])");
    auto const result = l.lane.run(both);
    REQUIRE(result.not_processed);
    CHECK(result.not_processed->then == runtime::reaction::each_alone);
    CHECK(l.rolled_back(runtime::failure::in_flight) == 1);
    CHECK(l.rolled_back(runtime::failure::refused) == 0);
    CHECK_MESSAGE(all_of(l.forward().claim.now()) == 1, "it has waited for the key");
}

TEST_CASE("a report that can't be taken in is counted, with the reason")
{
    counted_lane l;
    auto const& db = l.shop.at("payments").db;
    db.run("ALTER TABLE skald.progress RENAME TO locked_away");
    core::message m;
    m.type = core::progress_type;
    m.body = R"([{"scope": "", "key": "1"}])";
    auto t = runtime::route(test::delivery_of(m), "payments", l.steps);
    auto const result = l.lane.run({&t, 1});
    db.run("ALTER TABLE skald.locked_away RENAME TO progress");
    REQUIRE(result.not_processed);
    CHECK(result.not_processed->why == runtime::failure::unavailable);
    auto const& counted = l.counts->metrics.rolled_back;
    CHECK(counted.at(static_cast<std::size_t>(runtime::failure::unavailable)).value() == 1);
    CHECK(l.counts->metrics.reports.value() == 0);
}
