// The step of docs/libcurl.md, as the page has it, with a provider that misbehaves.
#include SKALD_PAGE

#include "gateway/gateway_process.hpp"

#include <doctest/doctest.h>

using skald::test::gateway_process;

namespace {

class nobody final : public skald::detail::call_owner
{
public:
    void heartbeat(std::optional<nlohmann::json> const&) override {}
    bool is_stopped() const noexcept override { return stopped; }
    bool stopped{};
};

struct a_call
{
    explicit a_call(std::uint16_t port) : step{"http://127.0.0.1:" + std::to_string(port)} {}

    skald::external_step<order, receipt> const& as_step() const { return step; }
    receipt make() { return as_step().call(ctx, bought); }
    skald::probe<receipt> look() { return as_step().look(ctx, bought); }

    capture_payment step;
    order bought{"o-1", 4'200};
    nobody owner;
    skald::call_context ctx{owner, "", "o-1", "o-1:capture", 1, {}, {}};
};

/// It may have happened: not what says that it did not.
void check_that_it_is_in_doubt(a_call& one)
{
    try {
        one.make();
        FAIL("it has a receipt");
    }
    catch (skald::did_not_happen_error const& error) {
        FAIL("taken for a no: " << error.what());
    }
    catch (std::exception const&) {
    }
}

}  // namespace

TEST_CASE("it charges once for a key, and finds what was charged")
{
    gateway_process gateway;
    a_call one{gateway.port()};
    CHECK_FALSE(one.look().happened());
    CHECK_FALSE(one.look().unknown());
    auto const made = one.make();
    CHECK(one.make().charge == made.charge);
    REQUIRE(one.look().happened());
    CHECK(one.look().happened()->charge == made.charge);
    CHECK(gateway.charges().size() == 1);
    gateway.plan(R"({"fault": "declined", "next": 1})");
    a_call other{gateway.port()};
    other.bought.id = "o-2";
    skald::call_context ctx{other.owner, "", "o-2", "o-2:capture", 1, {}, {}};
    CHECK(other.as_step().call(ctx, other.bought).is_declined);
}

TEST_CASE("whatever breaks after the request has left is in doubt, and what never left is not")
{
    gateway_process gateway;
    for (auto const* const fault : {"error_after", "hang_up_after", "error_before"}) {
        CAPTURE(fault);
        a_call one{gateway.port()};
        one.bought.id = fault;
        gateway.plan(R"({"next": 1, "fault": ")" + std::string{fault} + "\"}");
        skald::call_context ctx{one.owner, "", fault, std::string{fault} + ":capture", 1, {}, {}};
        CHECK_THROWS_AS(one.as_step().call(ctx, one.bought), std::runtime_error);
        bool const acted = std::string{fault}.ends_with("after");
        CHECK((one.as_step().look(ctx, one.bought).happened() != nullptr) == acted);
    }
    a_call one{gateway.port()};
    gateway.plan(R"({"fault": "die_after", "next": 1})");
    check_that_it_is_in_doubt(one);
    REQUIRE(skald::testing::wait_until([&] { return !gateway.process().is_running(); }));
    CHECK_THROWS_AS(one.make(), skald::did_not_happen_error);  // nobody listens
    CHECK_THROWS_AS(one.look(), std::exception);               // which counts as unknown
}

TEST_CASE("a call that is stopped ends, and is in doubt")
{
    gateway_process gateway;
    a_call one{gateway.port()};
    gateway.plan(R"({"fault": "slow 9000", "next": 1})");
    one.owner.stopped = true;
    check_that_it_is_in_doubt(one);
}
