// What an operator does in a Kafka for a service: looks at what is there, and makes the topics that the service needs
// where it may not do so itself.
#pragma once

#include "kafka/client.hpp"
#include "kafka/kafka_transport.hpp"
#include "kafka/lost_place.hpp"
#include "ports/transport.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace skald::kafka_detail {

struct topic_inspection
{
    std::string name;
    bool is_foreign{};  // of others: a handler is bound to it
    int partitions{};   // 0: there is no such topic
    int replicas{};     // of the partition that has the fewest; likewise the next
    int in_sync{};
    int leaderless{};                                 // partitions
    std::map<std::string, std::string> properties{};  // as Kafka has them; empty where this user may not read them
    std::int64_t waiting{};                           // records that the service's group has not settled
    std::int64_t deleted_unread{};                    // records that Kafka has deleted before the group settled them
};

struct inspection
{
    int brokers{};
    int members{};         // of the service's group: processes that consume
    std::string database;  // whose the group is, by what it has committed; empty: not known
    std::vector<topic_inspection> topics;
    std::string lost;         // why no process of the service takes anything: the group has lost its place; and then
    std::string lost_remedy;  // what to do
    std::vector<std::string> unread{};  // where it has lost it, and no process reads any more: a handler was removed
};

/// One look after the other, on one connection. Makes nothing.
/// Threads: one.
class inspector final : private listener
{
public:
    /// Throws configuration_error for what librdkafka does not take, and a binding that Kafka does not have.
    inspector(options const& settings, ports::subscriber const& who);

    /// Throws kafka_error if no broker answers, denied if this user may not ask, and kafka_unsettled if one answers and
    /// another, which would have to, does not. Ends within `patience` and some seconds, whatever the cluster does.
    inspection look(std::chrono::milliseconds patience = std::chrono::seconds{20});

private:
    inspection look_once();
    void look_at(topic_inspection& topic, inspection& seen, lost_place& lost);
    void read_properties(std::vector<topic_inspection>& topics);
    std::set<std::string> look_at_members(inspection& seen);
    std::chrono::milliseconds left() const;
    std::string needed() const;

    ports::subscriber who_;
    std::chrono::hours guarded_;
    std::string group_;
    std::vector<std::string> own_, foreign_;
    client client_;
    std::chrono::steady_clock::time_point until_;
};

/// Makes the topics of that service and of its handlers which are missing, waits until they are there, and returns the
/// names of all. Throws kafka_error, and configuration_error as the inspector.
std::vector<std::string> provision(options const& settings, ports::subscriber const& who);

}  // namespace skald::kafka_detail
