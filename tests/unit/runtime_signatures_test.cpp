// Where messages are signed, and where signatures are looked at: when they leave, and before anything is believed.
#include "support/dispatched_depot.hpp"
#include "support/event_log.hpp"
#include "unit/publish_bench.hpp"

#include <doctest/doctest.h>

using namespace skald;
using namespace skald::test;

namespace {

core::key_ring keys_of(char digit)
{
    return core::key_ring{{core::signing_key::parse(std::string(64, digit)).value()}};
}

core::message step_message()
{
    core::envelope e;
    e.saga = {"", "1"};
    e.definition = "move-house";
    e.itinerary = core::parse_itinerary("forward 1/2 pack@depot=compensatable weigh@depot=compensatable").value();
    e.home = "depot";
    return core::write_message(e, R"({"id":"1","shelf":"a"})");
}

std::string reason_of(runtime::task const& t)
{
    auto const* const bad = std::get_if<runtime::unreadable_message>(&t.purpose);
    return bad == nullptr ? "" : std::string{bad->reason};
}

/// What a process that has `keys` makes of messages that arrive.
struct gate
{
    core::key_ring keys = keys_of('a');
    runtime::registry steps;
    list_of_deliveries deliveries;
    event_log log;
    runtime::dispatcher work;

    explicit gate(bool must_be_signed)
        : work{{.lanes = 1, .batch_max = 32, .keys = &keys, .must_be_signed = must_be_signed},
               "depot",
               steps,
               deliveries,
               log,
               std::mt19937_64{1}}
    {}

    std::string arrives(core::message m)
    {
        ports::delivery d;
        d.tag = {1, ++number, 1};
        d.message = std::move(m);
        deliveries.add(std::move(d));
        auto taken = work.take(5s);
        REQUIRE(taken.tasks.size() == 1);
        auto reason = reason_of(taken.tasks.front());
        taken.tasks.clear();
        work.finish(std::move(taken), {});
        return reason;
    }

    std::uint64_t number{};
};

}  // namespace

TEST_CASE("whatever leaves is signed, whoever wrote its row")
{
    auto const keys = keys_of('a');
    bench b;
    b.options.sign_with = &keys;
    b.outbox.add(1);
    b.outbox.add(2);
    b.run(2);
    REQUIRE(b.publisher.sent_messages.size() == 2);
    for (auto const& one : b.publisher.sent_messages) CHECK_FALSE(keys.check(one));
}

TEST_CASE("without keys a message leaves as it is")
{
    bench b;
    b.outbox.add(1);
    b.run(2);
    REQUIRE(b.publisher.sent_messages.size() == 1);
    CHECK_FALSE(core::find_header(b.publisher.sent_messages.front().headers, core::signature_header));
}

TEST_CASE("where signatures are required nothing else of a message counts before")
{
    gate g{true};
    auto good = step_message();
    g.keys.sign(good);
    CHECK(g.arrives(good) == "");

    CHECK(g.arrives(step_message()) == "unsigned");
    auto other = step_message();
    keys_of('b').sign(other);
    CHECK(g.arrives(other) == "forged");
    auto changed = good;
    changed.body = R"({"id":"2","shelf":"a"})";
    CHECK(g.arrives(changed) == "forged");

    for (auto const type : {core::progress_type, core::expire_type, core::expired_type, core::control_type}) {
        core::message m;
        m.destination = "depot";
        m.type = type;
        m.body = "[]";
        CHECK(g.arrives(m) == "unsigned");
    }
    CHECK(g.arrives({}) == "unsigned");  // and not malformed, as which a replay would sign it
}

TEST_CASE("a header that can't be read, or the broker's giving up, hides no missing signature")
{
    auto const keys = keys_of('a');
    ports::delivery d;
    d.message = step_message();
    d.problem = "a header is a table";
    d.given_up = true;
    CHECK(reason_of(runtime::route(d, "depot", {}, &keys)) == "unsigned");
    keys.sign(d.message);
    CHECK(reason_of(runtime::route(d, "depot", {}, &keys)) == "malformed");
}

TEST_CASE("a message that is signed for another service is forged where it arrives")
{
    gate g{true};
    auto m = step_message();
    m.destination = "elsewhere";
    g.keys.sign(m);
    m.destination = "depot";  // as the transport says of all that comes from its queue
    CHECK(g.arrives(m) == "forged");
}

TEST_CASE("where they are not required yet, what would be parked is taken and told of, and not each time")
{
    gate g{false};
    auto good = step_message();
    g.keys.sign(good);
    CHECK(g.arrives(good) == "");
    CHECK(g.log.count("delivery.not_trusted") == 0);
    for (int n = 0; n < 5; ++n) CHECK(g.arrives(step_message()) == "");
    CHECK(g.log.count("delivery.not_trusted") == 1);
}
