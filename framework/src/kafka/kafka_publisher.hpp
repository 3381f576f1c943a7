// Sends to Kafka's topics; a delivery report is the confirm.
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "kafka/client.hpp"
#include "ports/transport.hpp"
#include "transports/reconnect_schedule.hpp"
#include "transports/waker.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace skald::kafka_detail {

/// Where a message goes.
struct target
{
    std::string topic;
    ports::publish_status if_missing{ports::publish_status::returned};
};

/// Throws configuration_error for what librdkafka does not take for a producer, together with what Skald relies on.
/// Connects to nothing.
void check_publisher(property_list properties);

class kafka_publisher final : public ports::publisher, private listener
{
public:
    kafka_publisher(property_list properties, core::backoff reconnect, std::uint64_t seed, core::logger& log)
        : properties_{std::move(properties)}, log_{log}, schedule_{reconnect, seed}
    {}

    bool available() override;

    /// Bounded by what librdkafka queues: where that is full, it waits.
    void send(std::span<ports::outgoing const> messages, std::chrono::milliseconds deadline) override;

    std::vector<ports::receipt> collect(std::chrono::milliseconds wait) override;
    void interrupt() noexcept override { interrupted_.wake(); }
    std::string last_error() const override { return last_error_; }

private:
    using clock = std::chrono::steady_clock;

    struct sent
    {
        std::uint64_t number{};
        std::int64_t row{};
        target to;
        clock::time_point until;
    };

    void delivered(rd_kafka_message_t const& report) override;
    bool has_place_of_its_own(rd_kafka_message_t const& report);

    void serve();
    void connect();
    void greet();
    void lose(std::string const& why, bool is_denied = false);
    std::string why_not_sent(target const& to, rd_kafka_resp_err_t error) const;
    void learn_all_topics(client& from);
    void learn_topics(std::span<ports::outgoing const> messages);
    ports::receipt unsent(std::int64_t row, target const& to) const;
    void send_one(ports::outgoing const& one, clock::time_point until);
    rd_kafka_resp_err_t enqueue(ports::outgoing const& one, sent& entry);
    void wait_until(clock::time_point until);

    property_list properties_;
    core::logger& log_;
    transports::reconnect_schedule schedule_;
    transports::waker interrupted_;
    std::set<std::string, std::less<>> topics_;   // known to exist
    std::set<std::string, std::less<>> asked_;    // for which this client was asked by name
    bool is_denied_{};                            // the last client was lost so: the next says it when it has sent
    std::string no_answer_;                       // why the last question about topics had none
    std::map<std::uint64_t, sent> sent_;          // without a report; what librdkafka reports with is here
    std::map<place, std::int64_t> last_offsets_;  // confirmed by this client
    std::uint64_t last_number_{};
    std::vector<ports::receipt> receipts_;
    std::string last_error_{"not connected yet"};
    std::unique_ptr<client> starting_;  // has not answered yet
    clock::time_point starting_until_;
    std::unique_ptr<client> client_;  // last: it tells the rest
};

}  // namespace skald::kafka_detail
