// Why a saga is where it is: case by case, the sentence that an operator reads.
#include <doctest/doctest.h>

#include "admin/explanation.hpp"

using namespace skald::admin;
using skald::step_kind;
using skald::core::instant;
using skald::core::saga_state;
using skald::core::step_status;
using namespace std::chrono_literals;

namespace {

instant const noon = skald::core::parse_instant("2026-01-31T12:00:00.000000Z").value();

/// The order saga at noon, of which nothing has run; the tests say what has.
saga_facts saga(saga_state status = saga_state::running)
{
    saga_facts s;
    s.id = {"", "k"};
    s.definition = "place-order";
    s.status = status;
    s.created_at = noon - 10min;
    s.now = noon;
    s.steps = {{"create-order", "orders", step_kind::compensatable, {}, {}},
               {"charge-payment", "payments", step_kind::compensatable, {}, {}},
               {"arrange-shipping", "shipping", step_kind::pivot, {}, {}},
               {"confirm-order", "orders", step_kind::retriable, {}, {}}};
    return s;
}

step_record was(step_status status, std::chrono::seconds ago = 3min, int attempts = 1, std::string error = "")
{
    return {status, attempts, std::move(error), noon - ago};
}

saga_facts with_steps_done(std::size_t count, saga_state status = saga_state::running)
{
    auto s = saga(status);
    for (std::size_t i = 0; i < count; ++i)
        s.steps[i].record = was(step_status::completed, 9min - std::chrono::minutes{i});
    return s;
}

std::string to_ask(std::string const& service)
{
    return " Does a process of " + service + " run? `skald doctor` with " + service +
           "'s DATABASE_URL says whether one consumes its queue.";
}

}  // namespace

TEST_CASE("of a running saga it says who has to take which step, and since when")
{
    CHECK(explain(saga()) ==
          "running: waiting for orders to take create-order since 2026-01-31 11:50:00Z (10 min ago)." +
              to_ask("orders"));
    CHECK(explain(with_steps_done(2)) ==
          "running: waiting for shipping to take arrange-shipping since 2026-01-31 11:52:00Z (8 min ago)." +
              to_ask("shipping"));
    auto young = saga();
    young.created_at = noon - 59s;
    CHECK(explain(young).ends_with("(59 s ago)."));
    CHECK(explain(with_steps_done(4)) == "running: every step has run, and its end is being recorded.");
}

TEST_CASE("of a step that is tried again it says how often it failed, and with what")
{
    auto s = with_steps_done(2);
    s.steps[2].record = was(step_status::retrying, 40s, 2, "no bridge");
    CHECK(explain(s) ==
          "running: arrange-shipping failed 2 times at shipping, last at 2026-01-31 11:59:20Z (40 s ago): no "
          "bridge; it is tried again by itself.");
    s.steps[2].record = was(step_status::retrying, 40s, 1, "no bridge.");
    CHECK(explain(s).find("failed once at shipping") != std::string::npos);
    CHECK(explain(s).find(": no bridge; it is tried again") != std::string::npos);  // without the error's own full stop
    s.steps[2].record = was(step_status::retrying, 40s, 0, "snoozed");
    CHECK(explain(s) == "running: arrange-shipping is snoozed at shipping since 2026-01-31 11:59:20Z (40 s ago).");
    s.steps[2].record = was(step_status::retrying, 40s, 0, "waits for a process that has it: version 2");
    CHECK(explain(s) ==
          "running: arrange-shipping waits for a process of shipping that has it, last looked for at 2026-01-31 "
          "11:59:20Z (40 s ago): version 2.");
    s.steps[2].record = was(step_status::retrying, 40s, 0, "put back");
    CHECK(explain(s).find("was put back by an operator at 2026-01-31 11:59:20Z") != std::string::npos);
}

TEST_CASE("of a saga that compensates it says why, and whose compensation is next")
{
    auto s = with_steps_done(2, saga_state::compensating);
    s.reason = "out of stock";
    s.steps[2].record = was(step_status::rejected, 2min, 1, "out of stock");
    CHECK(explain(s) ==
          "compensating: out of stock; waiting for payments to compensate charge-payment since 2026-01-31 11:58:00Z "
          "(2 min ago)." +
              to_ask("payments"));
    s.steps[1].compensation = was(step_status::retrying, 1min, 3, "deadlock");
    CHECK(explain(s).find("the compensation of charge-payment failed 3 times at payments") != std::string::npos);
    s.steps[1].compensation = was(step_status::completed, 1min);
    CHECK(explain(s).find("waiting for orders to compensate create-order since 2026-01-31 11:59:00Z") !=
          std::string::npos);
    s.steps[0].compensation = was(step_status::completed, 0s);
    CHECK(explain(s) == "compensating: out of stock; what had run is being undone.");
}

TEST_CASE("of a stuck saga it says what was parked where, after how many attempts, and the command that goes on")
{
    auto s = with_steps_done(2, saga_state::stuck);
    s.steps[1].compensation = was(step_status::parked, 3min, 5, "no wallet");
    CHECK(explain(s) ==
          "stuck: charge-payment.compensate was parked at payments after 5 attempts, 2026-01-31 11:57:00Z (3 min "
          "ago): no wallet. Fix the cause, then `skald saga retry k`.");
    s.steps[1].compensation.reset();
    s.steps[2].record = was(step_status::parked, 3min, 0, "too often");
    CHECK(explain(s) ==
          "stuck: arrange-shipping was parked at shipping, 2026-01-31 11:57:00Z (3 min ago): too often. Fix the "
          "cause, then `skald saga retry k`, or give it up with `skald saga cancel k`.");
    s = with_steps_done(3, saga_state::stuck);
    s.steps[3].record = was(step_status::parked, 3min, 1, "no row");
    CHECK(explain(s).find("after 1 attempt, ") != std::string::npos);
    CHECK_MESSAGE(explain(s).find("saga cancel") == std::string::npos, "behind the pivot there is nothing to give up");
    s.steps[3].record->service = "payments";  // where a copy of its message went astray
    CHECK(explain(s).find("was parked at payments") != std::string::npos);
    CHECK(explain(with_steps_done(3, saga_state::stuck)).find("`skald parked list`") != std::string::npos);
}

TEST_CASE("of a step between its two transactions it says since when, and where to read what it waits for")
{
    auto s = with_steps_done(2);
    s.steps[2].record = was(step_status::started, 40s);
    CHECK(
        explain(s) ==
        "running: arrange-shipping has begun at shipping, 2026-01-31 11:59:20Z (40 s ago); it waits for the end of its "
        "call, for a signal or for a time. In that service's database `skald started list --key k` says for what.");
    s.steps[2].record = was(step_status::started, 40s, 2, "refused");
    CHECK(explain(s).find("attempt 2, and is tried again by itself. The latest from there, 2026-01-31 11:59:20Z (40 s "
                          "ago): refused. In") != std::string::npos);
    s.command = command_facts{"cancel", "eve", "", noon - 1min};
    CHECK(explain(s).find("; if the call of arrange-shipping has been made, what it has done comes first.") !=
          std::string::npos);
    s.command.reset();
    s.deadline = noon - 1min;
    CHECK(explain(s).find(" Its deadline passed 60 s ago; arrange-shipping has begun, and ends first.") !=
          std::string::npos);
    s = with_steps_done(2, saga_state::compensating);
    s.reason = "out of stock";
    s.steps[1].compensation = was(step_status::started, 40s);
    CHECK(explain(s).find("compensating: out of stock; charge-payment.compensate has begun at payments, ") == 0);
}

TEST_CASE("of a call that nobody can tell about it says which, and the command with which somebody who knows says so")
{
    auto s = with_steps_done(1, saga_state::unknown);
    s.steps[1].record = was(step_status::unknown, 3min, 1, "its list is not up to date");
    CHECK(explain(s) ==
          "unknown: nobody knows what the call of charge-payment at payments has done. The other side was asked at "
          "2026-01-31 11:57:00Z (3 min ago): its list is not up to date. It is asked again by itself, and not called "
          "again. Find out, and say so in that service's database: `skald saga resolve k charge-payment happened "
          "--result JSON --reason WHY`, "
          "or did-not-happen instead.");
    s.steps[1].record = was(step_status::completed);
    s.steps[1].compensation = was(step_status::unknown);
    s.id.scope = "eu";
    CHECK(explain(s).find("`skald saga resolve k charge-payment.compensate happened --result JSON --reason WHY --scope "
                          "eu`") != std::string::npos);
}

TEST_CASE("commands can be copied into a shell, whatever the key and the scope")
{
    auto s = with_steps_done(3, saga_state::stuck);
    s.id = {"a b", "it's"};
    s.steps[3].record = was(step_status::parked);
    CHECK(explain(s).find("`skald saga retry 'it'\\''s' --scope 'a b'`") != std::string::npos);
}

TEST_CASE("of a saga that has ended it says when, and why")
{
    auto s = with_steps_done(4, saga_state::completed);
    s.finished_at = noon - 5h;
    CHECK(explain(s) == "completed at 2026-01-31 07:00:00Z (5 h ago): every step has run.");
    s = with_steps_done(1, saga_state::compensated);
    s.finished_at = noon - 72h;
    s.reason = "insufficient funds";
    CHECK(explain(s) ==
          "compensated at 2026-01-28 12:00:00Z (3 days ago): insufficient funds. What had run was undone.");
}

TEST_CASE("an order is told as long as it means something")
{
    auto s = with_steps_done(1);
    s.command = command_facts{"pause", "eve", "looking", noon - 1min};
    CHECK(explain(s).ends_with(
        " It is paused by eve at 2026-01-31 11:59:00Z (60 s ago): looking. Resume it with `skald saga "
        "resume k`."));
    s.command->action = "resume";
    CHECK(explain(s) == explain(with_steps_done(1)));
    s.command->action = "cancel";
    CHECK(explain(s).ends_with(
        "A cancel was requested by eve at 2026-01-31 11:59:00Z (60 s ago): looking; no service has reported yet "
        "that it took effect. One that was down then runs what waits in its queue first."));
    s.status = saga_state::compensating;
    CHECK(explain(s).find("A cancel") == std::string::npos);
}

TEST_CASE("of a step whose message is gone it says how to close the saga, and of a cancelled one not to pause it")
{
    auto s = with_steps_done(1, saga_state::stuck);
    s.steps[1].record = was(step_status::parked, 3min, 0, "its message was dropped from the outbox of orders");
    CHECK(explain(s).find("Nothing is left to retry: `skald saga pause k`, and close it; see docs/repair.md") !=
          std::string::npos);
    s.command = command_facts{"cancel", "eve", "", noon - 1min};
    auto const cancelled = explain(s);
    CHECK_MESSAGE(cancelled.find("Nothing is left to retry: close it; see docs/repair.md") != std::string::npos,
                  cancelled);
    CHECK(cancelled.find("saga pause") == std::string::npos);
    CHECK_MESSAGE(cancelled.ends_with(" (60 s ago); no message is left that could carry it out."), cancelled);
}

TEST_CASE("a saga that is stuck while it compensates does not say that no step has met its cancel")
{
    auto s = with_steps_done(1, saga_state::stuck);
    s.command = command_facts{"cancel", "eve", "", noon - 4min};
    s.steps[1].record = was(step_status::parked);
    CHECK(explain(s).find("no service has reported yet") != std::string::npos);
    s.steps[1].record = was(step_status::cancelled);
    s.steps[0].compensation = was(step_status::parked);
    CHECK_MESSAGE(explain(s).find("A cancel") == std::string::npos, explain(s));
    s.steps[1].record = was(step_status::rejected);
    s.steps[0].compensation.reset();
    CHECK_MESSAGE(explain(s).find("A cancel") == std::string::npos, explain(s));
}

TEST_CASE("of a step whose record was gone when it was to be undone it says that its effect may remain")
{
    auto s = with_steps_done(2, saga_state::compensated);
    s.finished_at = noon - 72h;
    s.steps[0].compensation = was(step_status::completed);
    s.steps[1].compensation = was(step_status::cancelled, 3min, 1, "nothing to undo");
    auto const end = std::string{"compensated at 2026-01-28 12:00:00Z (3 days ago). What else had run was undone."};
    CHECK(explain(s) ==
          end + " But charge-payment completed at payments, and its compensation found no record of it "
                "there, so its effect may remain: check, and fix it manually (docs/repair.md, \"A step that "
                "was not undone\").");
    s.steps[1].record = was(step_status::cancelled, 3min, 0);  // what the home's own database has in its place
    CHECK(explain(s).find("But charge-payment completed at payments") != std::string::npos);
    s.steps[1].record = was(step_status::cancelled, 3min, 1);
    CHECK(explain(s).find("But ") == std::string::npos);
    s.steps[1].record = was(step_status::completed);
    s.status = saga_state::compensating;
    CHECK(explain(s).find("But charge-payment completed at payments") != std::string::npos);
    s.steps[1].compensation->error = "fixed by hand";
    CHECK(explain(s).find("But ") == std::string::npos);
}

TEST_CASE("a cancel that came behind the pivot is told as too late, also when the saga has ended")
{
    for (auto const status : {saga_state::running, saga_state::completed}) {
        auto s = with_steps_done(3, status);
        s.command = command_facts{"cancel", "eve", "", noon - 1min};
        CHECK(explain(s).ends_with(
            "too late: arrange-shipping, the pivot, completed before it was there, and after that a saga can only go "
            "forward."));
    }
}

TEST_CASE("where there is no pivot, the last step that can be undone is the turning point")
{
    auto s = with_steps_done(2);
    s.steps.erase(s.steps.begin() + 2);
    s.command = command_facts{"cancel", "eve", "", noon - 1min};
    CHECK(explain(s).find("too late: charge-payment completed before it was there") != std::string::npos);
    s.steps.erase(s.steps.begin(), s.steps.begin() + 2);
    CHECK(explain(s).ends_with("without effect: no step of it can be undone."));
}

TEST_CASE("of a deadline it says when it comes, or who has not met it yet")
{
    auto s = with_steps_done(1);
    s.deadline = noon + 4min;
    CHECK(explain(s).ends_with(" Its deadline is in 4 min."));
    s.deadline = noon - 3min;
    CHECK(explain(s).ends_with(" Its deadline passed 3 min ago; payments has not taken it yet."));
    auto past = with_steps_done(3);
    past.deadline = noon - 3min;
    CHECK(explain(past).ends_with(
        " Its deadline passed 3 min ago, but arrange-shipping, the pivot, had completed: it can only "
        "go forward."));
    past.deadline = noon + 3min;
    CHECK(explain(past).find("deadline") == std::string::npos);
    s.status = saga_state::compensating;
    CHECK(explain(s).find("deadline") == std::string::npos);
    s = with_steps_done(1, saga_state::stuck);
    s.steps[1].record = was(step_status::parked);
    s.deadline = noon - 3min;
    CHECK(explain(s).ends_with("Its deadline passed 3 min ago: once it is put back, it compensates."));
}
