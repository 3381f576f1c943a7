// The in-memory transport keeps what every transport must, and obeys its test.
#include "transport_conformance.hpp"

#include "memory/memory_transport.hpp"

namespace {

using namespace skald::test;

class memory_fixture
{
public:
    static constexpr bool catches_replies = true;

    skald::ports::transport& transport() { return transport_; }
    std::string service() { return "service-" + std::to_string(++services_); }
    void go_down() { transport_.go_down(); }
    void come_back() { transport_.come_back(); }

private:
    skald::memory::memory_transport transport_;
    int services_{};
};

}  // namespace

TYPE_TO_STRING(memory_fixture);

namespace skald::test {
SKALD_TRANSPORT_CLAIMS(memory_fixture);
}

TEST_CASE("copies of a memory transport share one broker")
{
    skald::memory::memory_transport one;
    auto other = one;
    auto const subscription = other.subscribe({"payments", 1});
    CHECK(all_confirmed(publish(*one.open_publisher(), batch({message_for("payments")}))));
    CHECK(collect(*subscription, 1).size() == 1);
}

TEST_CASE("a blocked memory transport takes nothing and says why")
{
    skald::memory::memory_transport transport;
    transport.declare("payments");
    auto const publisher = transport.open_publisher();
    transport.block("low on memory");
    CHECK_FALSE(publisher->available());
    CHECK(publisher->last_error().find("low on memory") != std::string::npos);
    CHECK(publish(*publisher, batch({message_for("payments")}))[0].status == publish_status::unresolved);
    CHECK(transport.waiting("payments") == 0);
    transport.unblock();
    CHECK(publisher->available());
    CHECK(all_confirmed(publish(*publisher, batch({message_for("payments")}))));
}

TEST_CASE("nack_next nacks so many messages and no more")
{
    skald::memory::memory_transport transport;
    transport.declare("payments");
    transport.nack_next(2);
    auto const receipts = publish(*transport.open_publisher(), numbered("payments", 3));
    CHECK(receipts[0].status == publish_status::nacked);
    CHECK(receipts[1].status == publish_status::nacked);
    CHECK(receipts[2].status == publish_status::confirmed);
    CHECK(transport.captured().size() == 1);
}

TEST_CASE("a message whose confirm is lost has arrived all the same")
{
    skald::memory::memory_transport transport;
    transport.declare("payments");
    transport.lose_next_confirms(1);
    auto const receipts = publish(*transport.open_publisher(), numbered("payments", 2));
    CHECK(receipts[0].status == publish_status::unresolved);
    CHECK(receipts[1].status == publish_status::confirmed);
    CHECK(transport.waiting("payments") == 2);
}

TEST_CASE("captured() has what arrived, in order, and not what was returned or injected")
{
    skald::memory::memory_transport transport;
    transport.declare("payments");
    transport.inject(message_for("payments", "hostile"));
    publish(*transport.open_publisher(),
            batch({message_for("payments", "a"), message_for("nobody", "b"), message_for("payments", "c")}));
    auto const captured = transport.captured();
    REQUIRE(captured.size() == 2);
    CHECK(captured[0].id == "a");
    CHECK(captured[1].id == "c");
}

TEST_CASE("an injected message is delivered as it is, with the problem it was given")
{
    skald::memory::memory_transport transport;
    auto const subscription = transport.subscribe({"payments", 1});
    auto hostile = message_for("payments", std::string(1'000, '\n'));
    hostile.headers = {{"", ""}};
    transport.inject(hostile, "the header `x` is an array");
    auto const deliveries = collect(*subscription, 1);
    REQUIRE(deliveries.size() == 1);
    CHECK(deliveries[0].message.id == hostile.id);
    CHECK(deliveries[0].message.headers == hostile.headers);
    CHECK(deliveries[0].problem == "the header `x` is an array");
}
