// Steps that do a whole batch in one statement: what becomes of each is what execute() would make of it.
#include "support/busy_depot.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace std::chrono_literals;
using skald::test::busy_depot;
using skald::test::note;
using skald::test::parcel;
using skald::test::scripted;
using skald::test::scripted_pivot;
using skald::test::scripted_retriable;

namespace {

using batch_script = std::function<skald::batch_outcome(skald::batch<parcel>&)>;

template <class Step>
struct together final : Step, skald::batch_step<parcel>
{
    together(Step one, batch_script s) : Step{std::move(one)}, all{std::move(s)} {}
    skald::batch_outcome execute_batch(skald::batch<parcel>& members) const override { return all(members); }
    batch_script all;
};

/// What does `what` for those that are meant, in one statement, and says no to the others.
batch_script for_those(std::string const& what, std::function<bool(parcel const&)> is_meant)
{
    return [what, is_meant = std::move(is_meant)](skald::batch<parcel>& all) {
        auto rows = nlohmann::json::array();
        for (auto& one : all) {
            if (is_meant(one.data)) rows.push_back(what + ":" + one.data.id);
            else one.reject("too heavy");
        }
        all.sql("INSERT INTO effect (what) SELECT jsonb_array_elements_text($1::jsonb)", rows.dump());
        return skald::all_done();
    };
}

/// A busy depot whose step `weigh`, or `sign`, does batches.
class sorting_depot : public busy_depot
{
public:
    batch_script weigh_all = for_those("weigh", [](parcel const&) { return true; });
    batch_script sign_all = for_those("sign", [](parcel const&) { return true; });

    void open(int parcels)
    {
        auto& all = at("depot");
        all.host(skald::test::send, skald::test::steps::pack, scripted{"pack", pack});
        all.host(skald::test::send, skald::test::steps::weigh, together<scripted>{{"weigh", weigh}, weigh_all});
        all.host(skald::test::send, skald::test::steps::load, scripted_pivot{load});
        all.host(skald::test::send, skald::test::steps::sign,
                 together<scripted_retriable>{scripted_retriable{sign}, sign_all});
        for (int n = 1; n <= parcels; ++n)
            start(skald::test::send, parcel{"p" + std::to_string(n), n}, "p" + std::to_string(n));
    }

    /// The next step of all of them is due at the broker.
    std::uint64_t round_trips_of_next_batch(std::size_t size)
    {
        at("depot").make_due();
        at("depot").relay_due();
        auto const before = at("depot").round_trips();
        CHECK(at("depot").process_all(size) == size);
        return at("depot").round_trips() - before;
    }
};

bool is_light(parcel const& p)
{
    return p.weight % 4 != 0;
}

}  // namespace

TEST_CASE("sagas that a batch rejects compensate, in the transaction in which the others are done")
{
    sorting_depot d;
    d.weigh_all = for_those("weigh", is_light);
    d.open(12);
    CHECK(d.step() == 12);
    CHECK(d.round_trips_of_next_batch(12) == 2);
    CHECK(d.counts() == "pack 12, weigh 9");
    CHECK(d.transactions("weigh") == "1");
    CHECK(d.db().one(
              "SELECT string_agg(key || ' ' || attempts || ' ' || error, ', ' ORDER BY key) FROM skald.idempotency"
              " WHERE step = 'weigh' AND status = 'rejected'") == "p12 1 too heavy, p4 1 too heavy, p8 1 too heavy");
    d.run_all();
    CHECK(d.counts() == "load 9, pack 12, sign 9, undo pack 3, weigh 9");
    CHECK(d.sagas() == "compensated 3, completed 9");
    CHECK(d.db().one("SELECT string_agg(DISTINCT reason, ', ') FROM skald.saga WHERE status = 'compensated'") ==
          "too heavy");
}

TEST_CASE("a step that rejects members of its batches goes on doing batches")
{
    sorting_depot d;
    int batches = 0, alone = 0;
    d.weigh = [&](skald::step_context& ctx, parcel& p) -> skald::outcome {
        ++alone;
        note(ctx, "weigh:" + p.id);
        return skald::done();
    };
    d.weigh_all = [&](skald::batch<parcel>& all) {
        ++batches;
        return for_those("weigh", is_light)(all);
    };
    d.open(40);
    d.step();
    d.at("depot").relay_due();
    for (int i = 0; i < 4; ++i) CHECK(d.at("depot").process_all(10) == 10);
    CHECK(batches == 4);
    CHECK(alone == 0);
}

TEST_CASE("a rejected member publishes nothing, and a duplicate of it does nothing")
{
    sorting_depot d;
    d.weigh_all = [&](skald::batch<parcel>& all) {
        for (auto& one : all) one.ctx.publish("elsewhere", "weighed", {{"id", one.data.id}});
        return for_those("weigh", is_light)(all);
    };
    d.open(4);
    d.step();
    d.at("depot").relay_due();
    auto const all = d.at("depot").take_all();
    REQUIRE(all.size() == 4);
    d.at("depot").process_all_with(all);
    d.at("depot").process_all_with(all);
    CHECK(d.counts() == "pack 4, weigh 3");
    CHECK(d.db().one("SELECT count(*) FROM skald.outbox WHERE destination = 'elsewhere'") == "3");
    CHECK(d.db().one("SELECT count(*) FROM skald.idempotency WHERE step = 'weigh' AND status = 'rejected'") == "1");
}

TEST_CASE("where the batch ends one by one its members' rejections do not count: execute() decides")
{
    sorting_depot d;
    d.weigh_all = [](skald::batch<parcel>& all) {
        for (auto& one : all) one.reject("never mind");
        return skald::one_by_one();
    };
    d.open(5);
    d.run_all();
    CHECK(d.counts() == "load 5, pack 5, sign 5, weigh 5");
    CHECK(d.sagas() == "completed 5");
}

TEST_CASE("behind the pivot there is no rejecting: a retriable step's batch that tries runs one by one")
{
    sorting_depot d;
    d.sign_all = for_those("sign", is_light);
    d.open(8);
    d.run_all();
    CHECK(d.counts() == "load 8, pack 8, sign 8, weigh 8");
    CHECK(d.once_each());
    CHECK(d.sagas() == "completed 8");
}
