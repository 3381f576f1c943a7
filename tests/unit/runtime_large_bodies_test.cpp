// Which bodies are kept apart from what refers to them.
#include "runtime/large_bodies.hpp"

#include "core/envelope.hpp"

#include <doctest/doctest.h>

using namespace skald;

namespace {

constexpr std::size_t mib = 1024 * 1024;

ports::enqueued step_for(std::string const& service, std::size_t bytes)
{
    ports::enqueued e;
    e.message.destination = service;
    e.message.type = "charge";
    e.message.headers = {{std::string{core::header::itinerary}, "forward"}};
    e.message.body.assign(bytes, 'x');
    return e;
}

ports::changes kept(ports::enqueued e, bool is_shared)
{
    ports::changes c;
    c.messages.push_back(std::move(e));
    runtime::keep_large_bodies(c, {.service = "orders", .is_shared = is_shared});
    return c;
}

bool is_reference(ports::changes const& c)
{
    auto const& m = c.messages.front().message;
    CHECK(core::is_kept_elsewhere(m) == m.body.empty());
    CHECK(c.bodies.size() == (m.body.empty() ? 1 : 0));
    return m.body.empty();
}

}  // namespace

TEST_CASE("a step's data goes by reference where its service can read the store")
{
    constexpr std::size_t most = 64 * 1024;
    CHECK(!is_reference(kept(step_for("orders", most), false)));
    CHECK(is_reference(kept(step_for("orders", most + 1), false)));
    CHECK(!is_reference(kept(step_for("payments", most + 1), false)));
    CHECK(!is_reference(kept(step_for("payments", mib), false)));
    CHECK(!is_reference(kept(step_for("payments", most), true)));
    CHECK(is_reference(kept(step_for("payments", most + 1), true)));
    CHECK(is_reference(kept(step_for("payments", 64 * mib), true)));
}

TEST_CASE("data that can't get to its step is refused, with what would bring it there")
{
    auto const complaint = [](std::size_t bytes, bool is_shared) {
        try {
            kept(step_for("payments", bytes), is_shared);
            return std::string{"none"};
        }
        catch (ports::fault const& met) {
            CHECK(met.kind == ports::fault_kind::broken);
            return std::string{met.what()};
        }
    };
    CHECK(complaint(mib + 1, false).find("SKALD_BODY_STORE") != std::string::npos);
    CHECK(complaint(64 * mib + 1, true).find("at most 67108864") != std::string::npos);
}

TEST_CASE("what others than steps read stays in its message")
{
    auto report = step_for("payments", mib);
    report.message.headers.clear();
    CHECK(!is_reference(kept(report, true)));
}

TEST_CASE("a message that anybody may read stays whole as far as a row holds it, and then needs a shared store")
{
    auto const own = [](std::string const& to, std::size_t bytes) {
        auto e = step_for(to, bytes);
        e.message.headers.clear();
        return e;
    };
    CHECK(!is_reference(kept(own("audit", mib), true)));
    CHECK(is_reference(kept(own("audit", mib + 1), true)));
    CHECK_THROWS_AS(kept(own("audit", mib + 1), false), ports::fault);
    CHECK(is_reference(kept(own("orders.on.audit", mib), false)));  // a handler of the service itself
    CHECK(!is_reference(kept(own("payments.on.audit", mib), true)));
    auto report = own("orders", mib + 1);
    report.message.type = "skald.progress";
    CHECK(!is_reference(kept(report, true)));
}

TEST_CASE("a reply is sent again as it was sent: whole, or by reference")
{
    auto const replied = [](std::size_t bytes, bool is_shared) {
        ports::changes c;
        c.replies.push_back({{"", "k"}, "quote", std::string(bytes, 'r')});
        runtime::keep_large_bodies(c, {.service = "orders", .is_shared = is_shared, .store = "directory:/d"});
        return c;
    };
    CHECK(!replied(mib, true).replies.front().kept);
    auto const large = replied(mib + 1, true);
    CHECK(large.replies.front().body.empty());
    CHECK(large.replies.front().kept->store == "directory:/d");
    CHECK_THROWS_AS(replied(mib + 1, false), ports::fault);
}

TEST_CASE("a handler's message that is too large to be sent again is parked with a reference, unless it is malformed")
{
    auto const parked = [](std::size_t bytes, std::string const& reason, std::string const& handler) {
        ports::changes c;
        c.parked.push_back({{}, "", reason, "", {}, 0, false, handler});
        c.parked.back().message.body.assign(bytes, 'x');
        runtime::keep_large_bodies(c, {.service = "orders"});
        return core::is_kept_elsewhere(c.parked.front().message);
    };
    CHECK(parked(mib + 1, "mismatch", "quote"));
    CHECK(!parked(mib, "mismatch", "quote"));
    CHECK(!parked(mib + 1, "malformed", "quote"));
    CHECK(!parked(mib + 1, "mismatch", ""));
}

TEST_CASE("the setting bounds what is kept")
{
    ports::changes c;
    c.messages.push_back(step_for("orders", 2 * mib + 1));
    CHECK_THROWS_WITH_AS(runtime::keep_large_bodies(c, {.service = "orders", .most = 2 * mib}),
                         "the body of charge has 2097153 bytes: at most 2097152 may be sent (SKALD_BODY_MAX)",
                         ports::fault);
}

TEST_CASE("one body is kept once, and a reference that passes through holds it")
{
    ports::changes c;
    c.messages = {step_for("orders", mib), step_for("orders", mib), step_for("orders", 0)};
    core::refer(c.messages.back().message, core::reference_to("other", "x"));
    c.parked.push_back({});
    c.parked.back().message.body.assign(mib, 'x');
    c.response.emplace();
    c.response->body.assign(mib, 'r');
    runtime::keep_large_bodies(c, {.service = "orders"});
    REQUIRE(c.bodies.size() == 3);
    std::size_t with_bytes = 0;
    for (auto const& one : c.bodies) with_bytes += one.bytes ? 1 : 0;
    CHECK(with_bytes == 2);
    CHECK(c.response->body.empty());
    CHECK(c.response->kept->size == mib);
    CHECK(c.parked.back().message.body.size() == mib);  // as it came
}
