#include "rabbitmq/consumer_session.hpp"

#include "core/failpoint.hpp"
#include "core/foreign_message.hpp"
#include "rabbitmq/topology.hpp"

#include <algorithm>
#include <utility>

namespace skald::rabbitmq {
namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// The broker's channel has at most 32 of a quorum queue's acks in progress. It holds back the others until some of
// those are done, and loses them if the channel is closed meanwhile. Measured on 3.10: in one of three closes right
// after 100 acks, some messages came again. So after many acks we stay a moment.
constexpr std::size_t acks_under_way_max = 16;
constexpr std::chrono::milliseconds ack_time{500};

// How many frames are read before what they brought is handed over and requests are checked again. A delivery has three
// frames: it is about what a lane takes at a time.
constexpr int frames_per_turn = 3 * 64;

// Deliveries of the parked queue come in addition to the prefetch, so as few as possible.
constexpr std::uint16_t parked_prefetch = 1;

}  // namespace

consumer_session::consumer_session(connection_settings const& settings, sockets::socket_interrupter& interrupter,
                                   consumer_settings const& consumer, std::uint64_t generation)
    : consumer_{consumer}, generation_{generation}, broker_{settings, interrupter}
{
    SKALD_FAILPOINT_SOCKET(consumer, broker_.socket());
    broker_.expect_larger_frames();
    auto const prepare = consumer_.declares ? declare_queues : expect_queues;
    prepare(broker_, consumer_.who.service, consumer_.who.database);
    auto const prepare_handler = consumer_.declares ? declare_handler : expect_handler;
    for (auto const& one : consumer_.who.handlers) prepare_handler(broker_, consumer_.who.service, one);
    auto const parked = parked_queue_name(consumer_.who.service);
    if (consumer_.with_parked) consume(parked, parked_prefetch, parked);
    start_consuming(queue_name(consumer_.who.service), consumer_.who.prefetch);
    for (auto const& one : consumer_.who.handlers)
        start_consuming(handler_queue_name(consumer_.who.service, one.handler), one.prefetch);
}

void consumer_session::start_consuming(std::string const& queue, std::uint16_t prefetch)
{
    auto& begun = queues_.emplace_back(consumed{queue, prefetch, transports::slow_start{prefetch}, {}});
    consume(queue, std::min<std::size_t>(prefetch, begun.start.window()), queue);
}

/// Does not wait for the answers: deliveries may come before them, and only read() knows what to do with one that can't
/// be decoded.
void consumer_session::consume(std::string const& queue, std::size_t prefetch, std::string const& tag)
{
    // Per consumer, not for the channel as a whole: quorum queues do not allow that.
    amqp_basic_qos_t limit{};
    limit.prefetch_count = static_cast<std::uint16_t>(prefetch);
    broker_.send(AMQP_BASIC_QOS_METHOD, &limit, "setting the prefetch");

    amqp_basic_consume_t request{};
    request.queue = bytes(queue);
    request.consumer_tag = bytes(tag);  // so that a delivery says which queue it comes from
    broker_.send(AMQP_BASIC_CONSUME_METHOD, &request, "consuming");
}

void consumer_session::stop_consuming(std::string const& tag)
{
    // Without waiting for the answer: deliveries may cross it on the way.
    amqp_basic_cancel_t request{bytes(tag), /*nowait*/ 1};
    broker_.send(AMQP_BASIC_CANCEL_METHOD, &request, "cancelling");
}

/// A consumer's prefetch is that with which it began, so a second one has the rest. The first is not cancelled: what
/// was on its way then would come back, and be counted.
void consumer_session::widen()
{
    if (cancelled_) return;
    for (std::size_t i = 0; i < queues_.size(); ++i) {
        auto& one = queues_[i];
        if (one.prefetch <= transports::slow_start::few || !one.second_tag.empty() || !one.start.is_over()) continue;
        one.second_tag = std::to_string(i);
        consume(one.queue, one.prefetch - transports::slow_start::few, one.second_tag);
    }
}

/// Null: the parked queue, or none.
consumer_session::consumed* consumer_session::queue_of(std::string_view tag)
{
    auto const found =
        std::ranges::find_if(queues_, [&](consumed const& one) { return one.queue == tag || one.second_tag == tag; });
    return found == queues_.end() ? nullptr : &*found;
}

void consumer_session::keep_bound()
{
    auto const now = clock::now();
    if (cancelled_ || !consumer_.declares || now - bound_at_ < consumer_.rebind_every) return;
    bound_at_ = now;
    renew_bindings(broker_, consumer_.who.service, consumer_.who.handlers);
}

bool consumer_session::read(transports::mailbox& box)
{
    bool more = true;
    try {
        for (int i = 0; more && i < frames_per_turn; ++i) more = read_one();
    }
    catch (undecodable const& error) {
        park_unreadable(error.what());
    }
    deliver_to(box);
    widen();
    return more;
}

bool consumer_session::read_one()
{
    auto const frame = broker_.read(std::chrono::milliseconds{0});
    if (!frame) return false;
    if (content_reader::is_part(*frame)) {
        if (auto arrived = reader_.feed(*frame)) record(std::move(*arrived));
    }
    else if (frame->frame_type == AMQP_FRAME_METHOD) {
        handle(frame->payload.method);
    }
    broker_.release_buffers();
    return true;
}

/// One hostile message must not end every connection on which it is delivered. Its delivery has begun, so its tag is
/// known: the broker is asked to dead-letter it. From the parked queue it has nowhere to go.
void consumer_session::park_unreadable(std::string const& why)
{
    auto const* const culprit = reader_.unfinished();
    if (!culprit) throw connection_lost{why};
    auto const* const of = queue_of(culprit->consumer);
    auto const& queue = of != nullptr ? of->queue : culprit->consumer;
    bool const is_parked = queue == parked_queue_name(consumer_.who.service);
    amqp_basic_reject_t rejection{culprit->delivery_tag, /*requeue*/ is_parked};
    broker_.send(AMQP_BASIC_REJECT_METHOD, &rejection, "parking");
    broker_.close_unread();
    if (is_parked) throw parked_undecodable{"a message in `" + queue + "` can't be decoded"};
    throw connection_lost{"a message from `" + queue + "` can't be decoded and was parked"};
}

void consumer_session::handle(amqp_method_t const& method)
{
    if (method.id == AMQP_BASIC_CONSUME_OK_METHOD) ++consumers_agreed_;
    if (method.id != AMQP_BASIC_CANCEL_METHOD) return;
    // The queue was deleted or its leader is gone. The owner of this session makes a new one, which declares the queue
    // again, or reports that it is gone.
    auto const& cancel = *static_cast<amqp_basic_cancel_t const*>(method.decoded);
    auto const tag = view(cancel.consumer_tag);
    auto const* const of = queue_of(tag);
    throw connection_lost{"the broker cancelled the consumer of `" + (of != nullptr ? of->queue : std::string{tag}) +
                          "`"};
}

void consumer_session::record(content arrived)
{
    if (arrived.returned) return;  // nothing is published here
    SKALD_FAILPOINT("consumer.delivered");
    ledger_.delivered(arrived.delivery_tag);
    ports::delivery delivery;
    delivery.tag = {generation_, arrived.delivery_tag, the_channel};
    // A count without the flag was not set by the broker.
    if (arrived.redelivered) delivery.returns = std::max(1, arrived.properties.returns);
    auto* const from = queue_of(arrived.consumer);
    bool const is_parked = from == nullptr;
    if (is_parked) {
        // What came there for a reason other than too many deliveries (a policy, another client that rejected it, a
        // message that was sent there) is processed as usual; once, because that queue has no limit of deliveries that
        // parks it again (RabbitMQ 4 gives it one of 20, which drops it: docs/operations.md).
        auto const& why = arrived.properties.left_by;
        delivery.given_up = why == "delivery_limit" || arrived.redelivered;
        if (why != "delivery_limit") dead_lettered_ = why.empty() ? "unknown" : why;
    }
    else from->start.delivered(arrived.delivery_tag, arrived.redelivered);
    delivery.problem = std::move(arrived.properties.problem);
    delivery.message = std::move(arrived.properties.message);
    // Whatever routing key it was published with: it arrived here, so it is for us. The parked queue has those of all
    // queues, with the key of the queue that they left.
    delivery.handler = is_parked ? core::handler_of(arrived.routing_key, consumer_.who.service)
                                 : handler_of_queue(from->queue, consumer_.who.service);
    delivery.message.destination = delivery.handler.empty()
                                       ? consumer_.who.service
                                       : core::handler_destination(consumer_.who.service, delivery.handler);
    auto const& sent_to = is_parked ? arrived.properties.sent_to : arrived.exchange;
    if (sent_to != exchange_name) core::drop_words_of_ours(delivery.message);
    arrived_.push_back(std::move(delivery));
}

/// All at once: a lane that was woken for the first would take it and leave the others to the next lane.
void consumer_session::deliver_to(transports::mailbox& box)
{
    if (arrived_.empty()) return;
    auto const back = box.deliver(std::exchange(arrived_, {}));
    for (auto const& delivery : back) give_back(delivery.tag.number);
}

void consumer_session::send_acks(transports::requests const& asked)
{
    for (auto const& tag : asked.acks) {
        if (tag.generation != generation_) continue;
        ledger_.ack(tag.number);
        settled(tag.number);
    }
    auto const frames = ledger_.flush();
    for (auto const& [tag, multiple] : frames) {
        broker_.check(amqp_basic_ack(broker_.raw(), the_channel, tag, multiple), "acking");
        SKALD_FAILPOINT("consumer.acked");
    }
    count_acks(frames.size());
    for (auto const& tag : asked.requeues)
        if (tag.generation == generation_) give_back(tag.number);
}

void consumer_session::give_back(std::uint64_t tag)
{
    if (!ledger_.requeue(tag)) return;
    settled(tag);
    broker_.check(amqp_basic_nack(broker_.raw(), the_channel, tag, /*multiple*/ 0, /*requeue*/ 1), "giving back");
}

void consumer_session::cancel()
{
    if (std::exchange(cancelled_, true)) return;
    // What comes all the same is returned as it comes.
    stop_consuming(parked_queue_name(consumer_.who.service));
    for (auto const& one : queues_) {
        stop_consuming(one.queue);
        if (!one.second_tag.empty()) stop_consuming(one.second_tag);
    }
}

void consumer_session::settled(std::uint64_t tag)
{
    for (auto& one : queues_) one.start.settled(tag);
}

void consumer_session::count_acks(std::size_t frames)
{
    auto const now = clock::now();
    if (now - recent_since_ > ack_time) {
        recent_since_ = now;
        recent_acks_ = 0;
    }
    recent_acks_ += frames;
}

void consumer_session::linger()
{
    auto const until = clock::now() + ack_time;
    for (auto now = clock::now(); now < until; now = clock::now()) {
        broker_.read(std::chrono::ceil<std::chrono::milliseconds>(until - now));
        broker_.release_buffers();
    }
}

void consumer_session::close() noexcept
{
    try {
        if (recent_acks_ > acks_under_way_max && clock::now() - recent_since_ < 2 * ack_time) linger();
        broker_.close();
    }
    catch (connection_lost const&) {
        // Then there is nothing left to close.
    }
}

}  // namespace skald::rabbitmq
