#include "doctor_topic.hpp"

#include "kafka/operator_commands.hpp"
#include "kafka/topics.hpp"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace skald::tools {
namespace {

using kafka_detail::tool_command;
using kafka_detail::topic_inspection;

// Says what is wrong, each a line of its own.
class topic_findings
{
public:
    topic_findings(topic_inspection const& topic, std::string const& brokers, findings& found)
        : topic_{topic}, brokers_{brokers}, found_{found}
    {}

    void add(health level, std::string means, std::string remedy)
    {
        found_.push_back({"topic " + topic_.name, level, std::move(means), std::move(remedy)});
        said_ = true;
    }
    bool said() const { return said_; }

    /// With Kafka's own tools, since only who runs the cluster may.
    std::string set(std::string const& property) const
    {
        return tool_command("kafka-configs.sh", brokers_,
                            fmt::format("--alter --topic {} --add-config {}", topic_.name, property));
    }
    std::string set_partitions(int count) const
    {
        return tool_command("kafka-topics.sh", brokers_,
                            fmt::format("--alter --topic {} --partitions {}", topic_.name, count));
    }
    std::string look() const
    {
        return tool_command("kafka-configs.sh", brokers_, fmt::format("--describe --topic {}", topic_.name));
    }

    std::optional<std::int64_t> number(std::string const& property) const
    {
        auto const text = this->text(property);
        std::int64_t value{};
        auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        return error == std::errc{} && end == text.data() + text.size() ? std::optional{value} : std::nullopt;
    }

    std::string_view text(std::string const& property) const
    {
        auto const one = topic_.properties.find(property);
        return one == topic_.properties.end() ? std::string_view{} : one->second;
    }

private:
    topic_inspection const& topic_;
    std::string const& brokers_;
    findings& found_;
    bool said_{};
};

void examine_replicas(topic_inspection const& topic, config const& settings, int brokers, topic_findings& say)
{
    auto const min_insync = say.number("min.insync.replicas").value_or(0);
    if (topic.in_sync < min_insync)
        say.add(health::problem,
                fmt::format("takes no messages now: {} replicas are in sync, and min.insync.replicas is {}",
                            topic.in_sync, min_insync),
                "start the brokers that are away; until then messages wait in the outboxes");
    else if (topic.in_sync < topic.replicas)
        say.add(health::warning, fmt::format("{} of {} replicas are in sync", topic.in_sync, topic.replicas),
                "start the brokers that are away");
    if (topic.replicas < settings.kafka_replicas)
        say.add(health::warning,
                fmt::format("has {} replicas, and SKALD_KAFKA_REPLICAS is {}", topic.replicas, settings.kafka_replicas),
                "add replicas with kafka-reassign-partitions.sh, or correct the setting");
    if (topic.replicas == 1 && brokers > 1 && settings.kafka_replicas <= 1)
        say.add(health::warning, "has one replica: a broker that is lost takes confirmed messages with it",
                "give it three with kafka-reassign-partitions.sh, and min.insync.replicas=2");
    if (min_insync == 0) return;
    if (min_insync < settings.kafka_min_insync)
        say.add(health::warning,
                fmt::format("min.insync.replicas is {}, and SKALD_KAFKA_MIN_INSYNC is {}", min_insync,
                            settings.kafka_min_insync),
                say.set(fmt::format("min.insync.replicas={}", settings.kafka_min_insync)));
    else if (topic.replicas > 1 && min_insync == 1)
        say.add(health::warning,
                "min.insync.replicas is 1: a message that one broker alone has is confirmed, and lost with it",
                say.set("min.insync.replicas=2"));
    if (topic.replicas > 1 && min_insync == topic.replicas)
        say.add(health::warning,
                fmt::format("min.insync.replicas is as many as there are replicas ({}): one broker away, and nothing "
                            "is sent",
                            topic.replicas),
                say.set(fmt::format("min.insync.replicas={}", topic.replicas - 1)));
}

// A record that is deleted before it was consumed is a lost message, and nobody would know. And of what the guard
// recognizes, a group that is set back is to get all.
void examine_retention(topic_findings& say, int retention_days)
{
    std::chrono::milliseconds const least = std::chrono::days{retention_days + 7};
    if (auto const ms = say.number("retention.ms").value_or(-1); ms >= 0 && ms < least.count())
        say.add(health::warning,
                fmt::format("deletes records after {:.1f} days, whether or not they were consumed: sooner than "
                            "SKALD_RETENTION_DAYS ({}) and a week",
                            static_cast<double>(ms) / 86'400'000, retention_days),
                "that must be longer than the service may ever be down or behind: " +
                    say.set(fmt::format("retention.ms={}", least.count())) +
                    ", or more (docs/kafka.md, \"When topics grow too large\")");
    if (auto const bytes = say.number("retention.bytes").value_or(-1); bytes >= 0)
        say.add(health::warning,
                fmt::format("deletes records of a partition beyond {} bytes, whether or not they were consumed", bytes),
                say.set("retention.bytes=-1"));
    if (say.text("cleanup.policy").find("compact") != std::string_view::npos)
        say.add(health::problem, "is compacted: of a saga's messages only the latest stays, and the others are lost",
                say.set("cleanup.policy=delete"));
    if (say.text("unclean.leader.election.enable") == "true")
        say.add(health::warning, "a replica that lacks confirmed messages may become its leader",
                say.set("unclean.leader.election.enable=false"));
    if (auto const most = say.number("max.message.bytes"); most && *most < kafka_detail::record_bytes_max)
        say.add(health::warning,
                fmt::format("takes no message above {} bytes: a larger one stays in the outbox", *most),
                say.set(fmt::format("max.message.bytes={}", kafka_detail::record_bytes_max)));
}

std::string when_deleted(topic_findings const& say)
{
    auto const ms = say.number("retention.ms").value_or(-1);
    return ms < 0 ? "nothing is deleted unread"
                  : fmt::format("records are deleted after {:.1f} days, consumed or not",
                                static_cast<double>(ms) / 86'400'000);
}

}  // namespace

void examine_topic(topic_inspection const& topic, config const& settings, int brokers, findings& found)
{
    topic_findings say{topic, settings.kafka_brokers, found};
    if (topic.partitions == 0) {
        return say.add(health::problem,
                       topic.is_foreign ? "does not exist, or this user may not describe it, and a message handler is "
                                          "bound to it"
                                        : "does not exist, or this user may not describe it; where it does not, what "
                                          "is sent to the service stays in the senders' outboxes",
                       std::string{topic.is_foreign ? "its owner makes it; until then the service does not start"
                                   : settings.declare
                                       ? "start the service once, or run `skald migrate --topics`"
                                       : "run `skald migrate --topics`: with SKALD_DECLARE=off no service does"} +
                           "; or give this user `Describe` on it (the service: `Read`; docs/kafka.md, \"Rights\")");
    }
    if (topic.leaderless > 0)
        say.add(health::problem, fmt::format("{} of {} partitions have no leader", topic.leaderless, topic.partitions),
                "start the brokers that are away; until then messages wait");
    if (topic.is_foreign) {
        if (!say.said()) say.add(health::ok, fmt::format("of others, {} partitions", topic.partitions), "");
        return;
    }
    if (topic.partitions < settings.kafka_partitions)
        say.add(health::warning,
                fmt::format("has {} partitions, and SKALD_KAFKA_PARTITIONS is {}", topic.partitions,
                            settings.kafka_partitions),
                say.set_partitions(settings.kafka_partitions) + ", or correct the setting");
    examine_replicas(topic, settings, brokers, say);
    if (topic.deleted_unread > 0)
        say.add(health::problem,
                fmt::format("{} records were deleted before the service had read them: what was in them does not come",
                            topic.deleted_unread),
                say.set("retention.ms=-1") + "; for what is lost see docs/repair.md, \"A message that is lost\"");
    if (topic.properties.empty())
        say.add(health::warning, "this user may not read its properties: retention and the like were not compared",
                "give the user DescribeConfigs on the topic, or look with " + say.look());
    else examine_retention(say, settings.retention_days);
    if (!say.said())
        say.add(health::ok,
                fmt::format("{} partitions, {} replicas, min.insync.replicas {}, {}", topic.partitions, topic.replicas,
                            say.text("min.insync.replicas"), when_deleted(say)),
                "");
}

}  // namespace skald::tools
