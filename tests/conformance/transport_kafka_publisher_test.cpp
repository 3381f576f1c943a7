// A publisher whose Kafka answers late.
#include "support/kafka_double.hpp"
#include "transport_kafka_fixture.hpp"

using namespace skald::test;
namespace ports = skald::ports;

namespace {

struct late_kafka : kafka_double
{
    late_kafka() : kafka_double{{"skald.payments"}} {}

    std::unique_ptr<ports::publisher> publisher()
    {
        kafka::options options;
        options.brokers = brokers();
        options.reconnect = {10ms, 200ms};
        return kafka::kafka_transport{options, log}.open_publisher();
    }

    recording_logger log;
};

// A publisher waits for a second. The first answer on a new connection needs two turns.
constexpr auto slow = 700ms;
constexpr auto too_slow = 1'500ms;

}  // namespace

TEST_CASE("a publisher whose connection takes longer than it waits for an answer connects all the same")
{
    late_kafka f;
    f.answer_after(slow);
    auto const publisher = f.publisher();
    CHECK(wait_until([&] { return publisher->available(); }));
    CHECK(f.log.has("broker.lost role=publisher"));  // once in vain
    CHECK(all_confirmed(publish(*publisher, batch({message_for("payments")}))));
}

TEST_CASE("a question about a topic that is not answered in time puts off what is for that topic, and nothing else")
{
    late_kafka f;
    auto const publisher = f.publisher();
    REQUIRE(publisher->available());
    REQUIRE(all_confirmed(publish(*publisher, batch({message_for("payments")}))));
    f.answer_after(too_slow);
    auto const receipts = publish(*publisher, batch({message_for("payments"), message_for("nobody")}));
    CHECK_MESSAGE(receipts[0].status == publish_status::confirmed, receipts[0].reason);
    CHECK(receipts[1].status == publish_status::nacked);
    CHECK_MESSAGE(receipts[1].reason.starts_with("whether Kafka has a topic `skald.nobody` is not known"),
                  receipts[1].reason);
    CHECK_MESSAGE(!f.log.has("broker.lost"), f.log.lines());
}
