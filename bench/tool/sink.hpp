// Where the messages of a measurement end that is not about who takes them.
#pragma once

#include "bench_databases.hpp"
#include "broker_extras.hpp"
#include "fleet.hpp"

#include <optional>

namespace skald_bench {

/// Takes what is sent to `bench-sink`: a quorum queue that keeps only the last few, or, without a broker, a queue of
/// the inbox of `shipping` that keeps all. While it lives, what is sent to any of the three services waits for it,
/// whether it has run or not; over RabbitMQ the queues are there already.
/// Threads: one at a time. Throws std::runtime_error; for Kafka, which has none, std::logic_error.
class message_sink
{
public:
    message_sink(options const& chosen, bench_databases& databases, implementation who);
    ~message_sink();
    message_sink(message_sink const&) = delete;
    message_sink& operator=(message_sink const&) = delete;

private:
    std::optional<broker_connection> broker_;
    bench_databases* inboxes_{};
};

}  // namespace skald_bench
