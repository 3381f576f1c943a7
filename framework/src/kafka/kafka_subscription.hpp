// The deliveries for one service out of Kafka: a thread that has the consumer, and another consumer when it is lost.
#pragma once

#include "core/backoff.hpp"
#include "core/log.hpp"
#include "kafka/consumer.hpp"
#include "ports/transport.hpp"
#include "transports/io_thread.hpp"
#include "transports/mailbox_subscription.hpp"
#include "transports/reconnect_schedule.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace skald::kafka_detail {

class kafka_subscription final : public transports::mailbox_subscription
{
public:
    /// Waits for the first attempt; a Kafka that is away is no error, the attempts go on. Throws: configuration_error
    /// if a topic is missing that this process may not make.
    kafka_subscription(consumer_settings settings, core::backoff reconnect, std::uint64_t seed, core::logger& log);

    /// Commits what was acked, and leaves the group.
    ~kafka_subscription() override;

private:
    using clock = std::chrono::steady_clock;

    // All of these run on the consumer's thread.
    void run();
    bool run_once();
    void greet();
    void connect();
    void serve();
    void wait_for_something() const;
    void lose(std::string const& why);
    void say_lost(std::string const& why);

    consumer_settings settings_;
    core::logger& log_;
    transports::reconnect_schedule schedule_;
    std::uint64_t generation_{1};
    // The last one was, by what its partitions hold, or as this user may not consume: the next is not known to do until
    // it has them.
    bool is_refused_{};
    std::string denied_;  // what this user may not, since then
    clock::time_point said_{};
    std::unique_ptr<consumer> with_;
    std::optional<transports::io_thread> thread_;  // last: it uses the rest
};

}  // namespace skald::kafka_detail
