// What follows from how a step ended, by what the claim said: its record, the next message, the report, a parked row.
#include "core/reasons.hpp"
#include "runtime/step_consequences.hpp"

#include "unit/seeded.hpp"

#include <skald/definition.hpp>
#include <skald/detail/deadline.hpp>
#include <skald/detail/hosted_step.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace std::chrono_literals;
using namespace skald;
using core::step_status;
using ports::cancel_cause;
using ports::claim_result;
using runtime::step_result;

namespace {

struct parcel
{
    std::string id;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(parcel, id)

constexpr compensatable<parcel> pack{"pack", "depot"};
constexpr pivot<parcel> load{"load", "depot"};
constexpr retriable<parcel> sign{"sign", "depot"};
constexpr auto send = define("send", pack, load, sign);

/// A delivery of one of the steps at the service `depot`, of a saga whose home is elsewhere.
struct delivered
{
    explicit delivered(std::size_t step, core::direction direction = core::direction::forward)
    {
        hosted.options.retry = {3, 100ms, 1s};
        core::envelope e;
        e.saga = {"", "k"};
        e.definition = "send";
        e.itinerary = core::make_itinerary(send.steps);
        e.itinerary.position = {direction, step};
        e.home = "home";
        hosted.kind = e.itinerary.current().kind;
        task.delivery.message = core::write_message(e, R"({"id":"as received"})");
        task.purpose = runtime::step_message{e, &hosted, {}};
    }

    runtime::happened ends(claim_result met, std::optional<step_result> how, int attempts = 1)
    {
        bool const held = met == claim_result::fresh || met == claim_result::retry;
        return ends({met, attempts, held, {}, {}}, std::move(how));
    }

    runtime::happened ends(ports::claim_answer const& met, std::optional<step_result> how)
    {
        return runtime::add_consequences(changes, task, met, std::move(how), {"depot", core::instant{1h}, random});
    }

    void has_been_put_off(int times) { std::get<runtime::step_message>(task.purpose).envelope.snoozes = times; }

    void has_waited(std::chrono::milliseconds time)
    {
        std::get<runtime::step_message>(task.purpose).envelope.waits_since = core::instant{1h} - time;
    }

    /// What is sent to whom: "depot pack.compensate".
    std::string sent() const
    {
        std::string text;
        for (auto const& one : changes.messages) {
            auto const& m = one.message;
            auto const what = m.type == core::progress_type ? m.type : m.id.substr(m.id.find(':') + 1);
            text += (text.empty() ? "" : ", ") + m.destination + ' ' + what;
        }
        return text;
    }

    std::string report() const
    {
        for (auto const& one : changes.messages)
            if (one.message.type == core::progress_type) return one.message.body;
        return {};
    }

    runtime::registered_step hosted{};
    runtime::task task;
    ports::changes changes;
    std::mt19937_64 random{1};
};

constexpr auto back = core::direction::back;

}  // namespace

TEST_CASE("a step that is done sends its data on, and its fresh record stays as it is")
{
    delivered d{0};
    CHECK(d.ends(claim_result::fresh, runtime::done{R"({"id":"new"})", {}}).event == "step.completed");
    CHECK(d.changes.records.empty());
    CHECK(d.sent() == "depot load, home skald.progress");
    CHECK(d.changes.messages[0].message.body == R"({"id":"new"})");
    CHECK(d.changes.parked.empty());
}

TEST_CASE("one that is done at a later attempt says so in its record")
{
    delivered d{0};
    d.ends(claim_result::retry, runtime::done{"{}", {}}, 2);
    REQUIRE(d.changes.records.size() == 1);
    CHECK(d.changes.records[0].status == step_status::completed);
    CHECK(d.changes.records[0].attempts == 2);
}

TEST_CASE("a rejection compensates with the data as it came, and the home hears the reason")
{
    delivered d{1};
    CHECK(d.ends(claim_result::fresh, runtime::rejected{"no room"}).event == "step.rejected");
    REQUIRE(d.changes.records.size() == 1);
    CHECK(d.changes.records[0].status == step_status::rejected);
    CHECK(d.sent() == "depot pack.compensate, home skald.progress");
    CHECK(d.changes.messages[0].message.body == R"({"id":"as received"})");
    CHECK(d.report().find("no room") != std::string::npos);
}

TEST_CASE("a failure is tried again with what was received, until the attempts are used up; then the saga compensates")
{
    delivered again{1};
    CHECK(again.ends(claim_result::retry, runtime::failed{"broke"}, 2).event == "step.failed");
    CHECK(again.changes.records.at(0).status == step_status::retrying);
    CHECK(again.changes.records.at(0).attempts == 2);
    CHECK(again.sent() == "depot load, home skald.progress");
    CHECK(core::find_header(again.changes.messages[0].message.headers, "x-attempt") == "3");

    delivered last{1};
    CHECK(last.ends(claim_result::retry, runtime::failed{"broke"}, 3).event == "step.attempts_exhausted");
    CHECK(last.changes.records.at(0).status == step_status::rejected);
    CHECK(last.changes.records.at(0).error == "failed its last attempt: broke");
    CHECK(last.sent() == "depot pack.compensate, home skald.progress");
    CHECK(last.changes.parked.empty());
}

TEST_CASE("where there is no way back, attempts that are used up park the step")
{
    for (auto* const d : {new delivered{2}, new delivered{0, back}}) {
        std::unique_ptr<delivered> const owned{d};
        auto const logged = d->ends(claim_result::retry, runtime::failed{"broke"}, 3);
        CHECK(logged.event == "step.parked");
        CHECK(logged.level == core::severity::error);
        CHECK(d->changes.records.at(0).status == step_status::parked);
        REQUIRE(d->changes.parked.size() == 1);
        CHECK(d->changes.parked[0].reason == "attempts_exhausted");
        CHECK(d->sent() == "home skald.progress");
    }
}

TEST_CASE("a snooze is no attempt, and the message that comes again counts it")
{
    delivered d{0};
    d.ends(claim_result::fresh, runtime::snoozed{1h});
    CHECK(d.changes.records.at(0).status == step_status::retrying);
    CHECK(d.changes.records.at(0).attempts == 0);
    CHECK(d.changes.records.at(0).snoozes_added == 1);
    CHECK(d.changes.messages.at(0).delay == 1h);
    CHECK(core::find_header(d.changes.messages[0].message.headers, "x-snoozes") == "1");
}

TEST_CASE("busy and paused come back as they are, and are no step that ran")
{
    for (auto const met : {claim_result::in_flight, claim_result::paused}) {
        delivered d{0};
        d.ends(met, {});
        CHECK(d.changes.records.empty());
        CHECK(d.sent() == "depot pack");
        CHECK(d.changes.messages[0].delay >= 1s);
        CHECK(d.changes.messages[0].message.body == R"({"id":"as received"})");
    }
}

TEST_CASE("of a duplicate nothing follows; another body under the same key is kept aside")
{
    delivered same{0};
    CHECK(same.ends(claim_result::duplicate, {}).event == "step.duplicate");
    CHECK(same.sent().empty());
    CHECK(same.changes.parked.empty());

    delivered other{0};
    CHECK(other.ends(claim_result::mismatch, {}).event == "delivery.parked");
    CHECK(other.sent().empty());
    CHECK(other.changes.records.empty());
    CHECK(other.changes.parked.at(0).reason == "mismatch");
}

TEST_CASE("what turns up of a saga that was closed is parked without a record, and told")
{
    for (std::size_t const step : {0U, 2U}) {
        delivered d{step};
        CHECK(d.ends(claim_result::closed, {}).event == "delivery.parked");
        CHECK(d.changes.records.empty());
        CHECK(d.sent() == "home skald.progress");
        CHECK(d.changes.parked.at(0).reason == "closed");
        CHECK(d.report().find("its saga was closed by an operator") != std::string::npos);
    }
}

TEST_CASE("where the key is another home's, the saga compensates without a record, or is stuck after its pivot")
{
    ports::claim_answer const met{claim_result::mismatch, 1, false, cancel_cause::other_home, "returns"};
    delivered d{1};
    CHECK(d.ends(met, {}).event == "step.rejected");
    CHECK(d.changes.records.empty());
    CHECK(d.changes.parked.empty());
    CHECK(d.sent() == "depot pack.compensate, home skald.progress");
    CHECK(d.report().find("here the key k is that of a saga of returns") != std::string::npos);

    delivered undoing{0, back};
    undoing.ends(met, {});
    CHECK(undoing.changes.records.empty());
    CHECK(undoing.report().find("compensated") != std::string::npos);

    delivered behind{2};
    CHECK(behind.ends(met, {}).event == "delivery.parked");
    CHECK(behind.changes.parked.at(0).reason == "mismatch");
    CHECK(behind.report().find("stuck") != std::string::npos);
}

TEST_CASE("a delivery that can't be run parks the step, unless what became of that is decided already")
{
    delivered fresh{0};
    CHECK(fresh.ends(claim_result::fresh, runtime::unrunnable{"malformed", "no JSON"}).event == "step.parked");
    CHECK(fresh.changes.records.at(0).status == step_status::parked);
    CHECK(fresh.changes.records.at(0).attempts == 0);
    CHECK(fresh.changes.records.at(0).drop_fingerprint);
    CHECK(fresh.report().find("stuck") != std::string::npos);

    delivered decided{0};
    CHECK(decided.ends(claim_result::duplicate, runtime::unrunnable{"malformed", "no JSON"}).event ==
          "delivery.parked");
    CHECK(decided.changes.records.empty());
    CHECK(decided.changes.parked.at(0).reason == "malformed");
}

TEST_CASE("a step that ended its own transaction is parked though its record says completed")
{
    delivered d{0};
    CHECK(d.ends(claim_result::duplicate, runtime::unrunnable{"transaction_ended", "COMMIT"}).event == "step.parked");
    CHECK(d.changes.records.at(0).status == step_status::parked);
    CHECK_FALSE(d.changes.records.at(0).drop_fingerprint);
}

TEST_CASE("a step that a newer process may have waits for it: recorded and reported, with no attempt used")
{
    runtime::unrunnable const newer{"unknown_step", "version 2", 15min};
    delivered waiting{2};
    auto const said = waiting.ends(claim_result::fresh, newer);
    CHECK(said.event == "step.awaits_deploy");
    CHECK(said.level == core::severity::warning);
    CHECK(waiting.changes.parked.empty());
    REQUIRE(waiting.changes.records.size() == 1);
    CHECK(waiting.changes.records[0].status == step_status::retrying);
    CHECK(waiting.changes.records[0].attempts == 0);
    CHECK(waiting.changes.records[0].snoozes_added == 1);
    CHECK(waiting.changes.records[0].error == "waits for a process that has it: version 2");
    CHECK(waiting.sent() == "depot sign, home skald.progress");
    CHECK(waiting.report().find("version 2") != std::string::npos);
    auto const& again = waiting.changes.messages[0];
    CHECK(again.message.body == R"({"id":"as received"})");
    CHECK(again.delay <= 200ms);
    CHECK(core::find_header(again.message.headers, "x-attempt") == "1");
    CHECK(core::find_header(again.message.headers, "x-snoozes") == "1");
    CHECK(core::find_header(again.message.headers, "skald-waits-since") == core::write_instant(core::instant{1h}));

    delivered over{2};
    over.has_waited(15min);
    CHECK(over.ends(claim_result::retry, newer, 1).event == "step.parked");
    CHECK(over.changes.parked.at(0).reason == "unknown_step");
    over.has_waited(-15min);  // what is not to wait is parked, even if a header says that it began in the future
    CHECK(over.ends(claim_result::fresh, runtime::unrunnable{"malformed", "broken"}, 1).event == "step.parked");
}

TEST_CASE("a copy that meets a process without its step, after its step has run, is a duplicate and not parked")
{
    delivered d{2};
    d.has_waited(20min);
    CHECK(d.ends(claim_result::duplicate, runtime::unrunnable{"unknown_step", "version 2", 15min}).event ==
          "step.duplicate");
    CHECK(d.changes.parked.empty());
}

TEST_CASE("where there is nothing to undo, a process without the step passes that on: none of its code would run")
{
    delivered d{0, back};
    CHECK(d.ends({claim_result::cancelled, 1, true, cancel_cause::nothing_to_undo, std::string{core::nothing_to_undo}},
                 runtime::unrunnable{"unknown_step", "version 2", 15min})
              .event == "step.cancelled");
    CHECK(d.changes.parked.empty());
}

TEST_CASE("a step whose data took a newer form says so in what it sends, and one that failed after a wait begins anew")
{
    delivered d{0};
    d.ends(claim_result::fresh, runtime::done{R"({"id":"new"})", {}, {}, 3});
    CHECK(core::find_header(d.changes.messages[0].message.headers, "x-saga-version") == "3");

    delivered failed{0};
    failed.has_waited(10min);
    failed.ends(claim_result::retry, runtime::failed{"broke"}, 1);
    CHECK_FALSE(core::find_header(failed.changes.messages[0].message.headers, "skald-waits-since"));
}

TEST_CASE("a step that an operator or its deadline stops compensates its saga, whether it could be run or not")
{
    for (auto const cause : {cancel_cause::command, cancel_cause::deadline})
        for (bool const wrong : {false, true}) {
            delivered d{1};
            std::optional<step_result> how;
            if (wrong) how = runtime::unrunnable{"unknown_step", "not here"};
            CHECK(d.ends({claim_result::cancelled, 1, true, cause, "stopped"}, std::move(how)).event ==
                  "step.cancelled");
            CHECK(d.changes.records.at(0).status == step_status::cancelled);
            CHECK(d.sent() == "depot pack.compensate, home skald.progress");
            CHECK(d.changes.parked.empty());
        }
}

TEST_CASE("of a cancellation that was processed before nothing follows")
{
    delivered d{1};
    CHECK(d.ends({claim_result::cancelled, 1, false, {}, {}}, {}).event == "step.duplicate");
    CHECK(d.changes.records.empty());
    CHECK(d.sent().empty());
}

TEST_CASE("a step that is put off once a second for two weeks, or for thirty years, sends what can be read")
{
    for (int const snoozes : {1'209'600, core::fencing_token_max - 2}) {
        delivered d{1};
        d.has_been_put_off(snoozes);
        CHECK(d.ends(claim_result::retry, runtime::snoozed{1s}).event == "step.snoozed");
        auto const again = core::read_envelope(d.changes.messages.at(0).message);
        REQUIRE(std::holds_alternative<core::envelope>(again));
        CHECK(std::get<core::envelope>(again).snoozes == snoozes + 1);
    }
}

TEST_CASE("a step that was put off as often as can be counted is given up, as one whose attempts are used up")
{
    delivered may_go_back{1};
    may_go_back.has_been_put_off(core::fencing_token_max - 1);
    CHECK(may_go_back.ends(claim_result::retry, runtime::snoozed{1s}).event == "step.attempts_exhausted");
    CHECK(may_go_back.sent() == "depot pack.compensate, home skald.progress");

    delivered must_go_on{2};
    must_go_on.has_been_put_off(core::fencing_token_max - 1);
    must_go_on.ends(claim_result::retry, runtime::failed{"broken"});
    REQUIRE(must_go_on.changes.parked.size() == 1);
    CHECK(must_go_on.changes.parked[0].reason == "attempts_exhausted");
}

TEST_CASE("property: whatever a step leaves behind, the service that gets it can read it")
{
    test::seeded random{20};
    auto const upto = [&](std::int64_t most) {
        auto const bits = random.number(0, 62);
        return std::min(most, static_cast<std::int64_t>(random.number(0, (std::uint64_t{1} << bits) - 1)));
    };
    for (int i = 0; i < test::cases(5'000); ++i) {
        delivered d{random.number(0, 2)};
        auto& e = std::get<runtime::step_message>(d.task.purpose).envelope;
        e.attempt = static_cast<int>(1 + upto(core::fencing_token_max));
        e.snoozes = static_cast<int>(upto(core::count_max - e.attempt));
        e.version = static_cast<int>(1 + upto(core::count_max - 1));
        if (random.coin()) e.saga_deadline = core::instant{std::chrono::microseconds{upto(INT64_MAX)}};
        d.hosted.options.retry.attempts_max = static_cast<int>(1 + upto(core::fencing_token_max - 1));
        d.hosted.options.retry.longest = std::chrono::milliseconds{upto(INT64_MAX)};
        if (random.coin())
            d.hosted.options.retry.deadline = std::chrono::milliseconds{upto(detail::deadline_max.count())};
        std::optional<step_result> how;
        switch (random.number(0, 3)) {
        case 0: how = runtime::done{"{}", {}}; break;
        case 1: how = runtime::snoozed{std::chrono::milliseconds{upto(INT64_MAX)}}; break;
        case 2: how = runtime::failed{random.bytes(0, 2000)}; break;
        default: how = runtime::rejected{random.bytes(0, 2000)};
        }
        if (e.itinerary.past_pivot() && std::holds_alternative<runtime::rejected>(*how)) how = runtime::failed{"no"};
        d.ends(claim_result::retry, std::move(how), e.attempt);
        for (auto const& one : d.changes.messages) {
            CHECK(one.delay <= detail::deadline_max);
            if (one.message.type.starts_with("skald.")) continue;
            auto const read = core::read_envelope(one.message);
            auto const* const why = std::get_if<core::refusal>(&read);
            CAPTURE(e.attempt);
            CAPTURE(e.snoozes);
            REQUIRE((why != nullptr ? why->why : "") == "");
        }
    }
}
