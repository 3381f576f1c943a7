// Skald's invariants, one key at a time: without a database.
#include "audit/rules.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace skald::audit;

namespace {

surroundings const around{{"orders", "payments"}, "FILE", {}};

auto const plan = "forward 2/2 create-order@orders=compensatable charge-payment@payments=compensatable";

key_facts saga(std::string status)
{
    key_facts facts;
    facts.key = "o-1";
    facts.sagas.push_back({"orders", std::move(status), "2026-11-01T12:00:00.000000Z", plan, true, false});
    return facts;
}

void record(key_facts& facts, std::string service, std::string step, std::string status = "completed",
            std::string home = "orders")
{
    facts.records.push_back(
        {std::move(service), std::move(step), std::move(status), "2026-11-01T12:00:00.000000Z", std::move(home), true});
}

key_facts completed()
{
    auto facts = saga("completed");
    record(facts, "orders", "create-order");
    record(facts, "payments", "charge-payment");
    return facts;
}

key_facts compensated()
{
    auto facts = saga("compensated");
    record(facts, "orders", "create-order");
    record(facts, "orders", "create-order.compensate");
    record(facts, "payments", "charge-payment", "rejected");
    return facts;
}

/// "kind service what", for each.
std::string found(key_facts const& facts, surroundings const& around_it = around)
{
    std::string text;
    for (auto const& one : examine(facts, around_it))
        text += (text.empty() ? "" : "; ") + one.kind + ' ' + one.service + ' ' + one.what;
    return text;
}

}  // namespace

TEST_CASE("a saga that ended and has its records everywhere is in order")
{
    CHECK(found(completed()).empty());
    CHECK(found(compensated()).empty());
}

TEST_CASE("a completed saga has each step completed, and none undone")
{
    auto missing = completed();
    missing.records.pop_back();
    CHECK(found(missing) == "not_done orders charge-payment");
    missing.sagas[0].expires = true;
    CHECK(found(missing).empty());
    missing.sagas[0].expires = false;
    missing.closed.insert("orders");
    CHECK(found(missing).empty());

    auto rejected = completed();
    rejected.records[1].status = "rejected";
    CHECK(found(rejected) == "not_done orders charge-payment");
    auto other = completed();
    other.records[1].home = "kiosk";
    CHECK(found(other) == "not_done orders charge-payment; not_examined kiosk ");
    auto undone = completed();
    record(undone, "payments", "charge-payment.compensate");
    CHECK(found(undone) == "undone orders charge-payment");
}

TEST_CASE("a compensated saga has undone what it did")
{
    auto done = compensated();
    done.records[2].status = "completed";
    CHECK(found(done) == "not_undone orders charge-payment");
    record(done, "payments", "charge-payment.compensate", "retrying");
    CHECK(found(done) == "not_undone orders charge-payment; waits_for_nothing payments charge-payment.compensate");
    done.records.back().status = "completed";
    CHECK(found(done).empty());
    done.not_undone.emplace_back("orders", "charge-payment");
    CHECK(found(done) == "not_undone orders charge-payment");
    done.closed.insert("orders");
    CHECK(found(done).empty());
}

TEST_CASE("an effect has a saga at its home")
{
    key_facts facts;
    record(facts, "payments", "charge-payment");
    CHECK(found(facts) == "effect_without_saga payments charge-payment");
    facts.records[0].status = "cancelled";
    CHECK(found(facts).empty());
    facts.records[0] = {"payments", "own-claim", "completed", "", "", true};
    CHECK(found(facts).empty());
}

TEST_CASE("a saga that has not ended has something that moves it on, or is young")
{
    auto lost = saga("running");
    CHECK(found(lost) == "nothing_moves_it orders ");
    auto young = lost;
    young.is_old = false;
    CHECK(found(young).empty());
    auto sent = lost;
    sent.busy.insert("payments");
    CHECK(found(sent).empty());
    auto paused = lost;
    paused.paused.insert("orders");
    CHECK(found(paused).empty());
    paused.paused = {"payments"};
    CHECK(found(paused) == "nothing_moves_it orders ");
    CHECK(found(saga("unknown")).empty());
}

TEST_CASE("a message that may be in a queue moves its saga on, and where queues are not known only time tells")
{
    auto with_queues = around;
    with_queues.queues.waiting = {{"orders", 0}, {"payments", 3}};
    CHECK(found(saga("running"), with_queues).empty());
    // A queue that is never empty does not explain for ever.
    auto facts = saga("running");
    facts.latest = "2026-11-01T12:00:00.000000Z";
    with_queues.day_ago = "2026-11-01T11:59:59.999999Z";
    CHECK(found(facts, with_queues).empty());
    with_queues.day_ago = "2026-11-01T12:00:00.000001Z";
    REQUIRE(found(facts, with_queues) == "nothing_moves_it orders ");
    CHECK(examine(facts, with_queues)[0].means.ends_with("for more than a day, which no queue explains"));

    with_queues.day_ago.clear();
    with_queues.queues.waiting["payments"] = 0;
    auto const lost = examine(saga("running"), with_queues);
    REQUIRE(lost.size() == 1);
    CHECK(lost[0].means.ends_with("the queues of its services are empty"));
    with_queues.queues.sees_held = false;
    REQUIRE(found(saga("running"), with_queues) == "nothing_moves_it orders ");
    CHECK(examine(saga("running"), with_queues)[0].means.ends_with("(one that a process holds is not seen)"));
    with_queues.queues.waiting.erase("payments");
    auto const unknown = examine(saga("running"), with_queues);
    REQUIRE(unknown.size() == 1);
    CHECK(unknown[0].means.ends_with("is not known: the audit was told of no broker, or it did not answer"));
}

TEST_CASE("a step that is to go on has something that goes on with it")
{
    auto facts = completed();
    facts.records[1].status = "started";
    facts.sagas[0].status = "compensated";
    record(facts, "orders", "create-order.compensate");
    CHECK(found(facts) == "waits_for_nothing payments charge-payment");
    facts.busy.insert("payments");
    CHECK(found(facts).empty());
    facts.busy.clear();
    facts.records[1].is_old = false;
    CHECK(found(facts).empty());
}

TEST_CASE("a message in an outbox is of a saga that is under way")
{
    auto ended = completed();
    ended.messages.push_back({"orders", "o-1:charge-payment", "payments", "orders", "", true});
    CHECK(found(ended) == "message_for_nothing orders o-1:charge-payment");
    ended.messages[0].is_old = false;
    CHECK(found(ended).empty());
    key_facts nobody;
    nobody.messages.push_back({"orders", "o-1:charge-payment", "payments", "orders", "", true});
    CHECK(found(nobody) == "message_for_nothing orders o-1:charge-payment");
}

TEST_CASE("a parked delivery is of a saga that is under way")
{
    auto facts = completed();
    facts.parked.push_back({"payments", "7", "charge-payment", "mismatch", "", "orders", true});
    CHECK(found(facts) == "parked_for_nothing payments charge-payment");
    CHECK(examine(facts, around)[0].command == "skald parked show 7");
    facts.sagas[0].status = "stuck";
    facts.busy.insert("payments");
    CHECK(found(facts).empty());
    facts.parked[0].home = "kiosk";
    CHECK(found(facts) == "parked_for_nothing payments charge-payment");
    facts.parked[0].home.clear();
    CHECK(found(facts).empty());
}

TEST_CASE("what is young on one database may not be on another yet, which may be a standby")
{
    auto done = completed();
    done.records.pop_back();
    done.sagas[0].is_old = false;
    CHECK(found(done).empty());
    auto undone = compensated();
    undone.records[2].status = "completed";
    undone.sagas[0].is_old = false;
    CHECK(found(undone).empty());
    key_facts nobody;
    record(nobody, "payments", "charge-payment");
    nobody.records[0].is_old = false;
    nobody.messages.push_back({"orders", "o-1:charge-payment", "payments", "orders", "", false});
    nobody.parked.push_back({"payments", "7", "charge-payment", "mismatch", "", "orders", false});
    CHECK(found(nobody).empty());
}

TEST_CASE("services whose databases were not given are named, and nothing is said about them")
{
    auto const orders_alone = surroundings{{"orders"}, "FILE", {}};
    auto facts = completed();
    facts.records.pop_back();
    auto const all = examine(facts, orders_alone);
    REQUIRE(all.size() == 1);
    CHECK(all[0].kind == "not_examined");
    CHECK(all[0].key.empty());
    CHECK(all[0].command == "add a line payments=URL to FILE");
}
