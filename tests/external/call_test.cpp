// External steps: an intent that commits, a call outside of any transaction, and an end that is recorded once.
#include "external/bank.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using namespace std::chrono_literals;
using namespace skald::test;
using skald::ports::started_kind;

TEST_CASE("a call is made once, between two transactions, and the saga goes on with what it returned")
{
    bank_services all;
    all.host();
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    // The intent is there, the delivery is acked, and nothing is under way: no message, no transaction.
    CHECK(all.effects("till") == "prepare");
    CHECK(all.record("capture") == "started|1");
    CHECK(all.started() == "capture|f|0");
    CHECK(all.at("till").db.one("SELECT count(*) FROM skald.outbox") == "0");
    CHECK(all.at("shop").db.rows("SELECT step, status FROM skald.progress") == "capture|started");
    CHECK(all.saga_status("k") == "running");
    CHECK(all.gateway.charges.empty());

    CHECK(all.at("till").go_on());
    CHECK(all.gateway.charges == std::vector<std::string>{"k:capture"});
    CHECK(all.effects("till") == "prepare\nsettle r-1");
    CHECK(all.started() == "");
    all.run();
    CHECK(all.effects("shop") == "reserve\nship r-1");
    CHECK(all.saga_status("k") == "completed");
    CHECK(all.gateway.looks == 0);
}

TEST_CASE("a delivery that comes again while its step is started does nothing")
{
    bank_services all;
    all.host();
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    auto const again = all.last_sent("capture");
    all.at("till").process(delivery_of(again));
    CHECK(all.started() == "capture|f|0");
    CHECK(all.effects("till") == "prepare");
    all.run_all();
    all.at("till").process(delivery_of(again));
    CHECK(all.gateway.charges.size() == 1);
    CHECK(all.saga_status("k") == "completed");
}

TEST_CASE(
    "after a call that threw, the other side is asked before anything else, and what has happened is not done again")
{
    bank_services all;
    all.host();
    all.gateway.after_charge = [](auto const&) { throw std::runtime_error{"timed out"}; };
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    CHECK(all.at("till").go_on());
    CHECK(all.started() == "capture|t|1");
    CHECK(all.at("till").db.one("SELECT error FROM skald.started") == "timed out");
    CHECK_FALSE(all.at("till").go_on());  // not at once
    all.at("till").make_started_due();
    CHECK(all.at("till").go_on());
    all.run();
    CHECK(all.gateway.charges.size() == 1);
    CHECK(all.gateway.looks == 1);
    CHECK(all.effects("shop") == "reserve\nship r-1");
}

TEST_CASE("what surely did not happen is called again, as another attempt")
{
    bank_services all;
    all.host();
    int failures = 2;
    all.gateway.before_charge = [&](auto const&) {
        if (failures-- > 0) throw skald::did_not_happen_error{"connection refused"};
    };
    all.start(buy, purchase{"p", 100}, "k");
    all.run_all();
    CHECK(all.gateway.looks == 0);
    CHECK(all.gateway.charges.size() == 1);
    CHECK(all.record("capture") == "completed|3");
    CHECK(all.saga_status("k") == "completed");
}

TEST_CASE("a call in doubt that did not happen is called again")
{
    bank_services all;
    all.host();
    all.gateway.before_charge = [&](auto const&) {
        all.gateway.before_charge = {};
        throw std::runtime_error{"connection reset"};
    };
    all.start(buy, purchase{"p", 100}, "k");
    all.run_all();
    CHECK(all.gateway.charges.empty());
    all.at("till").make_started_due();
    all.run_all();
    CHECK(all.gateway.looks == 1);
    CHECK(all.gateway.charges.size() == 1);
    CHECK(all.record("capture") == "completed|2");
}

TEST_CASE("a row from a backup that an operator sets in doubt asks before it calls again, as docs/repair.md says")
{
    bank_services all;
    all.host();
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    REQUIRE(all.at("till").db.one("SELECT in_doubt FROM skald.started") == "f");
    all.gateway.charges.push_back("k:capture");  // after the backup
    all.at("till").db.run("UPDATE skald.started SET in_doubt = true WHERE kind = 'call' AND answer IS NULL");
    all.run_all();
    CHECK(all.gateway.looks == 1);
    CHECK(all.gateway.charges.size() == 1);
    CHECK(all.record("capture") == "completed|1");
    CHECK(all.saga_status("k") == "completed");
}

TEST_CASE("when the attempts are used up the saga compensates, and what prepare wrote is undone")
{
    bank_services all;
    all.host();
    all.gateway.before_charge = [&](auto const&) { throw skald::did_not_happen_error{"closed"}; };
    all.start(buy, purchase{"p", 100}, "k");
    all.run_all();
    CHECK(all.record("capture") == "rejected|3");
    CHECK(all.effects("till") == "prepare\nabandon");
    CHECK(all.effects("shop") == "reserve\nundo reserve");
    CHECK(all.saga_status("k") == "compensated");
    CHECK(all.started() == "");
}

TEST_CASE(
    "while nobody knows what a call has done it is not called, and the saga is shown as unknown until somebody does")
{
    bank_services all;
    all.at("till").options_of_steps.call.unknown_after = 0ms;
    all.host();
    all.gateway.can_tell = false;
    all.gateway.after_charge = [](auto const&) { throw std::runtime_error{"timed out"}; };
    all.start(buy, purchase{"p", 100}, "k");
    all.run_all();
    for (int n = 0; n < 3; ++n) {
        all.at("till").make_started_due();
        all.run_all();
    }
    CHECK(all.gateway.charges.size() == 1);
    CHECK(all.gateway.looks == 3);
    CHECK(all.record("capture") == "unknown|1");
    CHECK(all.saga_status("k") == "unknown");
    CHECK(all.at("shop").db.one("SELECT reason FROM skald.saga") ==
          "what a call has done is not known: its list is not up to date");

    SUBCASE("the other side")
    {
        all.gateway.can_tell = true;
        all.at("till").make_started_due();
        all.run_all();
    }
    SUBCASE("an operator, who says that it happened")
    {
        CHECK(all.at("till").db.one(
                  "SELECT skald.resolve_step('', 'k', 'capture', '{\"happened\": {\"number\": \"r-1\"}}', "
                  "'the bank said so by phone')") == "");
        CHECK(all.at("till").db.one("SELECT verb FROM skald.audit") == "saga resolve");
        all.run_all();
        CHECK(all.gateway.looks == 3);
    }
    SUBCASE("an operator, who says that it did not")
    {
        all.gateway.after_charge = {};
        CHECK(all.at("till").db.one(
                  "SELECT skald.resolve_step('', 'k', 'capture', '{\"did_not_happen\": \"bank\"}', '')") == "");
        all.run_all();
        CHECK(all.gateway.charges.size() == 2);
    }
    CHECK(all.saga_status("k") == "completed");
    CHECK(all.at("shop").db.one("SELECT reason FROM skald.saga") == "");
    CHECK(all.gateway.looks >= 3);
}

TEST_CASE("an operator can't resolve what is not in doubt")
{
    bank_services all;
    all.host();
    auto const resolve = [&] {
        return all.at("till").db.one(
            "SELECT skald.resolve_step('', 'k', 'capture', '{\"did_not_happen\": \"x\"}', '')");
    };
    CHECK(resolve() == "capture of saga k is not under way here: it has not begun, or another service has it");
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    CHECK(resolve() == "nothing of capture of saga k is in doubt: it has not been called yet");
    all.run_all();
    CHECK(resolve() == "capture of saga k is completed here: nothing of it is in doubt");
}

TEST_CASE("an answer that no process could read is refused")
{
    bank_services all;
    all.host();
    all.gateway.after_charge = [](auto const&) { throw std::runtime_error{"timed out"}; };
    all.start(buy, purchase{"p", 100}, "k");
    all.run_all();
    for (auto const* const odd :
         {"'{\"did_not_happen\": 5}'", "'\"no\"'", "'{}'", "NULL", "'{\"happened\": {}, \"did_not_happen\": \"x\"}'"})
        CHECK(all.at("till")
                  .db.one("SELECT skald.resolve_step('', 'k', 'capture', " + std::string{odd} + ", '')")
                  .starts_with("the answer is {\"happened\": result} or {\"did_not_happen\": \"why\"}, and not "));
    CHECK(all.started() == "capture|t|1");
}

TEST_CASE("a no of the other side is a result: settle rejects, and prepare is undone")
{
    bank_services all;
    all.host();
    all.gateway.declines = true;
    all.start(buy, purchase{"p", 100}, "k");
    all.run_all();
    CHECK(all.effects("till") == "prepare\nabandon");
    CHECK(all.record("capture") == "rejected|1");
    CHECK(all.saga_status("k") == "compensated");
    CHECK(all.at("shop").db.one("SELECT reason FROM skald.saga") == "declined");
    CHECK(all.gateway.looks == 0);
}

TEST_CASE("prepare may reject: nothing is called")
{
    bank_services all;
    all.host();
    all.start(buy, purchase{"p", -1}, "k");
    all.run_all();
    CHECK(all.effects("till") == "");
    CHECK(all.gateway.charges.empty());
    CHECK(all.saga_status("k") == "compensated");
}

TEST_CASE("of two owners only the one that has it now can record an end")
{
    bank_services all;
    all.host();
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    auto& till = all.at("till");
    skald::runtime::registry none;
    auto first = till.started().take("first", started_kind::call, "", 1);
    REQUIRE(first.size() == 1);
    CHECK_FALSE(first.front().was_in_doubt);
    till.make_started_due();
    auto second = till.started().take("second", started_kind::call, "", 1);
    REQUIRE(second.size() == 1);
    CHECK(second.front().was_in_doubt);
    CHECK(second.front().id.fence == first.front().id.fence + 1);

    skald::ports::started_steps::held const held{first.front().id, "{}"};
    CHECK_FALSE(till.started().renew({&held, 1}).front().is_ours);
    CHECK(till.started().release({first.front().id, 0ms, true}) == skald::ports::release_result::not_ours);
    auto const end = [&](skald::ports::started_steps::taken const& row, std::string const& number) {
        auto task = till.route({delivery_of(row.message)});
        task.front().second = skald::runtime::second_transaction{
            row.id, true, 0, skald::runtime::second_transaction::answer{"{\"number\": \"" + number + "\"}"}};
        till.record(std::move(task.front()));
    };
    end(first.front(), "of the first");
    CHECK(all.effects("till") == "prepare");
    end(second.front(), "of the second");
    CHECK(all.effects("till") == "prepare\nsettle of the second");
    end(second.front(), "of the second");
    CHECK(all.effects("till") == "prepare\nsettle of the second");
}

TEST_CASE("a cancel before the call ends the step, and one after it lets what has happened be recorded")
{
    bank_services all;
    all.host();
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    auto const cancel = [&] {
        all.at("shop").db.run("SELECT skald.request_control('cancel', '', 'k', 'changed my mind')");
        all.run();
    };
    SUBCASE("before")
    {
        cancel();
        all.run_all();
        CHECK(all.gateway.charges.empty());
        CHECK(all.effects("till") == "prepare\nabandon");
        CHECK(all.saga_status("k") == "compensated");
    }
    SUBCASE("after, of the pivot")
    {
        all.gateway.after_charge = [&](auto const&) {
            cancel();
            throw std::runtime_error{"timed out"};
        };
        all.run_all();
        all.at("till").make_started_due();
        all.run_all();
        CHECK(all.effects("till") == "prepare\nsettle r-1");
        CHECK(all.saga_status("k") == "completed");
    }
    SUBCASE("after, and it did not happen")
    {
        all.gateway.before_charge = [&](auto const&) {
            cancel();
            throw std::runtime_error{"timed out"};
        };
        all.run_all();
        all.at("till").make_started_due();
        all.run_all();
        CHECK(all.gateway.charges.empty());
        CHECK(all.saga_status("k") == "compensated");
    }
}

TEST_CASE("a paused saga is not called; a resumed one is")
{
    bank_services all;
    all.host();
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    all.at("shop").db.run("SELECT skald.request_control('pause', '', 'k')");
    all.run_all();
    CHECK(all.gateway.charges.empty());
    all.at("shop").db.run("SELECT skald.request_control('resume', '', 'k')");
    all.run_all();
    CHECK(all.gateway.charges.size() == 1);
}

TEST_CASE("a step's deadline ends a call that has not been made")
{
    bank_services all;
    all.at("till").options_of_steps.retry.deadline = 1ms;
    all.host();
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    all.run_all();
    CHECK(all.gateway.charges.empty());
    CHECK(all.saga_status("k") == "compensated");
    CHECK(all.at("shop").db.one("SELECT reason FROM skald.saga") == "deadline passed");
}

TEST_CASE("a checkpoint is there for the next owner")
{
    bank_services all;
    all.host();
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    auto& till = all.at("till");
    auto const first = till.started().take("first", started_kind::call, "", 1).at(0);
    skald::ports::started_steps::held const held{first.id, R"({"page": 7})"};
    CHECK(till.started().renew({&held, 1}).front().is_ours);
    till.make_started_due();
    CHECK(till.started().take("second", started_kind::call, "", 1).at(0).checkpoint == R"({"page": 7})");
}

TEST_CASE("a closed saga's call can't record its end")
{
    bank_services all;
    all.host();
    all.start(buy, purchase{"p", 100}, "k");
    all.run();
    auto const taken = all.at("till").started().take("first", started_kind::call, "", 1).at(0);
    all.at("shop").db.run("SELECT skald.request_control('pause', '', 'k')");
    all.at("shop").db.run("SELECT skald.close_saga('compensated', '', 'k', 'by hand', even_with_calls => true)");
    all.run();
    CHECK(all.record("capture") == "cancelled|1");
    CHECK(all.started() == "");
    CHECK(all.at("till").started().release({taken.id, 0ms, true}) == skald::ports::release_result::not_ours);
}

TEST_CASE("nobody can say that a call has not happened while it is made")
{
    bank_services all;
    all.host();
    std::string refusal;
    all.gateway.before_charge = [&](auto const&) {
        refusal =
            all.at("till").db.one("SELECT skald.resolve_step('', 'k', 'capture', '{\"did_not_happen\": \"x\"}', '')");
    };
    all.start(buy, purchase{"p", 100}, "k");
    all.run_all();
    CHECK(refusal.find("is being called, or asked about, by the kit now, and may yet happen") != std::string::npos);
    CHECK(all.gateway.charges.size() == 1);
    CHECK(all.saga_status("k") == "completed");
}
