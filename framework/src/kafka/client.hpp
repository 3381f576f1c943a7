// One client of librdkafka, a producer or a consumer, and what is known about its connections.
//
// librdkafka connects again by itself and says little about it. So an error raises a doubt, and a question to the
// cluster settles it.
#pragma once

#include "kafka/handles.hpp"
#include "transports/waker.hpp"

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace skald::kafka_detail {

/// What a client is told while it is polled. An exception comes out of poll().
struct listener
{
    virtual ~listener() = default;
    virtual void delivered(rd_kafka_message_t const& /*report*/) {}
    virtual void rebalanced(rd_kafka_resp_err_t /*what*/, rd_kafka_topic_partition_list_t const* /*which*/) {}
    virtual void commit_failed() {}
};

/// The records that a partition has: from `low` on, and before `high`.
struct extent
{
    std::int64_t low{}, high{};
};

using property_list = std::vector<std::pair<std::string, std::string>>;

/// Threads: one.
class client
{
public:
    /// Connects to nothing yet. Of two values of a property the last counts. Throws: configuration_error for what
    /// librdkafka does not take.
    client(rd_kafka_type_t kind, property_list const& properties, listener& told);
    ~client();
    client(client const&) = delete;
    client& operator=(client const&) = delete;

    rd_kafka_t* raw() const { return raw_; }

    /// As they were given.
    std::string const& brokers() const { return brokers_; }

    /// Readable when there may be something to poll for; until clear().
    transports::waker const& arrivals() const { return arrivals_; }

    /// Makes arrivals() readable when there is something in that queue.
    void wake_for(rd_kafka_queue_t* queue) const;

    /// For a queue that may outlive this client: the descriptor may soon be somebody else's.
    static void stop_waking_for(rd_kafka_queue_t* queue);

    /// Tells the listener, without waiting. Throws client_lost if librdkafka has given up, and what the listener threw.
    void poll();

    /// Why the cluster may be out of reach; empty: nothing says so.
    std::string const& doubt() const { return doubt_; }

    /// What a consumer was told of a topic that is not there, which it begins with; empty: nothing since the last time.
    std::string take_missing() { return std::exchange(missing_, {}); }

    /// What this user may not, of which there is no doubt, though the cluster answers: it is not settled by asking.
    /// Empty: nothing since the last time. `for_group`, `for_topics`: the right that a consumer then needs.
    std::string take_denial(std::string const& for_group, std::string const& for_topics);

    /// Why librdkafka has given this client up, and which right to give if that is why; empty: it has not.
    std::string why_given_up() const;

    /// Asks any broker that answers within `timeout`, and so settles the doubt. Throws kafka_error if none does.
    void ask(std::chrono::milliseconds timeout);

    /// The brokers, and with `of_all` every topic that this user may see, or that one; likewise. Makes none. Who has
    /// joined a group does not ask for all: it could be told there of partitions.
    metadata_ptr metadata(bool of_all, std::chrono::milliseconds timeout, rd_kafka_topic_t* of = nullptr);

    /// Every topic that this user may see, likewise.
    std::vector<std::string> topics(std::chrono::milliseconds timeout);

    /// Whether it is one of these, likewise; only that is asked for. librdkafka keeps its name, also if there is none.
    bool has_topic(std::string const& name, std::chrono::milliseconds timeout);

    /// Asks the leader of a partition. Throws kafka_error if it does not answer within `timeout`.
    extent extent_of(place const& where, std::chrono::milliseconds timeout);

    /// Ends nothing: it stays with its threads until the process ends. For where librdkafka would not survive the end.
    void abandon() { is_abandoned_ = true; }

    /// A consumer leaves its group when it is destroyed, unless this was said: no broker would hear it.
    void leave_without_a_word() { leaves_group_ = false; }

private:
    void leave();
    static void end(rd_kafka_t* raw);
    static void hear_as_consumer(rd_kafka_conf_t* conf);
    static void hear_as_producer(rd_kafka_conf_t* conf);
    void guarded(std::function<void()> const& tell) noexcept;
    void doubt(rd_kafka_resp_err_t error, char const* reason);
    void deny(rd_kafka_resp_err_t error, char const* reason);
    void hear_why();

    listener& told_;
    bool const is_consumer_;
    bool leaves_group_{true}, is_abandoned_{};
    transports::waker arrivals_;
    std::string brokers_, doubt_, missing_;
    std::string denial_;
    rd_kafka_resp_err_t denial_of_{};
    bool is_fatal_{};
    std::exception_ptr thrown_;
    rd_kafka_t* raw_{};
};

}  // namespace skald::kafka_detail
