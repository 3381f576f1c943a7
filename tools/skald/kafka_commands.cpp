#include "kafka_commands.hpp"

#include <skald/errors.hpp>

#ifdef SKALD_HAS_KAFKA

#include "doctor_topic.hpp"

#include "kafka/administration.hpp"
#include "kafka/operator_commands.hpp"
#include "kafka/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace skald::tools {
namespace {

// One broker answers, and another, which would have to, does not.
class kafka_in_part : public kafka_away
{
    using kafka_away::kafka_away;
};

// The brokers answer, and this user may not ask.
class kafka_denies : public kafka_away
{
    using kafka_away::kafka_away;
};

kafka_detail::inspection look_into_kafka(config const& settings, ports::subscriber const& who)
try {
    return kafka_detail::inspector{kafka_detail::read_options("skald", settings), who}.look();
}
catch (kafka_detail::kafka_unsettled const& error) {
    throw kafka_in_part{error.what()};
}
catch (kafka_detail::denied const& error) {
    throw kafka_denies{error.what()};
}
catch (kafka_detail::kafka_error const& error) {
    throw kafka_away{error.what()};
}

std::string another_database(kafka_detail::inspection const& seen, postgres::ownership const& owner)
{
    if (seen.database.empty() || owner.database.empty() || seen.database == owner.database) return {};
    return kafka_detail::belongs_to_another(owner.service, seen.database);
}

std::int64_t waiting_in(kafka_detail::inspection const& seen)
{
    std::int64_t waiting = 0;
    for (auto const& one : seen.topics) waiting += one.waiting;
    return waiting;
}

finding judge_group(kafka_detail::inspection const& seen, postgres::ownership const& owner, config const& settings)
{
    if (auto const why = another_database(seen, owner); !why.empty())
        return {"group", health::problem, why, kafka_detail::remedy_of_another(settings.kafka_brokers, owner.service)};
    if (!seen.lost.empty()) return {"group", health::problem, seen.lost, seen.lost_remedy};
    auto const waiting = waiting_in(seen);
    auto const means = fmt::format("skald.{}: {} messages wait or are being processed; {} processes consume",
                                   owner.service, waiting, seen.members);
    if (seen.members == 0)
        return {"group", waiting > 0 ? health::problem : health::warning, means,
                "no process consumes: start the service; if it runs, its log says why (`broker.lost`)"};
    int partitions = 0;
    for (auto const& one : seen.topics) partitions = std::max(partitions, one.partitions);
    if (seen.members > partitions && partitions > 0)
        return {"group", health::warning, means,
                fmt::format("{} of them get nothing, for there are {} partitions: add partitions, or run fewer",
                            seen.members - partitions, partitions)};
    return {"group", health::ok, means, ""};
}

bool is_bound_to(ports::handler_queue const& handler, std::string const& topic)
{
    return std::ranges::any_of(handler.bindings, [&](auto const& one) {
        return topic == (one.exchange == "skald" ? kafka_detail::topic_of(one.routing_key) : one.exchange);
    });
}

// The rows of removed handlers stay, and Kafka forgets where the group was in what it does not read any more.
void examine_removed(kafka_detail::inspection const& seen, expected const& at_broker, findings& found)
{
    for (auto const& topic : seen.unread)
        for (auto const& one : at_broker.handlers)
            if (is_bound_to(one, topic))
                found.push_back(
                    {"handler " + one.handler, health::warning,
                     fmt::format("no process that runs reads {}, and skald.{} has no place in it any more", topic,
                                 at_broker.owner.service),
                     fmt::format("if no version of the service has this handler any more, delete its row: `DELETE FROM "
                                 "skald.handler WHERE handler = '{}'`; if one has, say where it is to begin before it "
                                 "starts (docs/kafka.md, \"A group that has lost its place\")",
                                 one.handler)});
}

}  // namespace

std::vector<std::string> make_kafka_topics(config const& settings, ports::subscriber const& who)
try {
    return kafka_detail::provision(kafka_detail::read_options("skald", settings), who);
}
catch (kafka_detail::kafka_error const& error) {
    throw kafka_away{error.what()};
}

std::int64_t waiting_in_kafka(config const& settings, std::string const& service)
{
    auto const seen = look_into_kafka(settings, {service});
    for (auto const& one : seen.topics) {
        if (one.partitions == 0)
            throw kafka_away{"Kafka has no topic `" + one.name +
                             "`, or this user may not describe it: it needs `Describe` on it (docs/kafka.md, "
                             "\"Rights\")"};
        if (one.leaderless > 0) throw kafka_away{"a partition of `" + one.name + "` has no leader"};
    }
    return waiting_in(seen);
}

std::string foreign_in_kafka(config const& settings, postgres::ownership const& owner)
{
    auto const why = another_database(look_into_kafka(settings, {owner.service}), owner);
    return why.empty() ? why : why + ": " + kafka_detail::remedy_of_another(settings.kafka_brokers, owner.service);
}

void examine_kafka(config const& settings, expected const& at_broker, findings& found)
try {
    auto const& owner = at_broker.owner;
    ports::subscriber who{owner.service.empty() ? "nobody" : owner.service};
    who.handlers = at_broker.handlers;
    who.forgot_before = owner.forgot_before;
    auto const seen = look_into_kafka(settings, who);
    found.push_back({"broker", health::ok,
                     fmt::format("Kafka answers at {}: {} brokers", settings.kafka_brokers, seen.brokers), ""});
    if (owner.service.empty()) return;
    for (auto const& one : seen.topics) examine_topic(one, settings, seen.brokers, found);
    found.push_back(judge_group(seen, owner, settings));
    examine_removed(seen, at_broker, found);
}
catch (configuration_error const& error) {
    found.push_back({"broker", health::problem, error.what(), "correct the setting"});
}
catch (kafka_in_part const& error) {
    found.push_back(
        {"broker", health::problem,
         fmt::format("Kafka answers at {}, but can't be examined now: {}", settings.kafka_brokers, error.what()),
         "a broker of the cluster is away, or what it led moves to another: ask again in a minute; if it stays so, "
         "start that broker, or let its advertised.listeners name an address that can be reached from here; until "
         "then requests are accepted and messages wait"});
}
catch (kafka_denies const& error) {
    if (at_broker.owner.service.empty())  // and so no group's
        return found.push_back({"broker", health::ok, "Kafka answers at " + settings.kafka_brokers, ""});
    found.push_back({"broker", health::problem,
                     fmt::format("Kafka answers at {}, but does not let this user examine all of it: {}",
                                 settings.kafka_brokers, error.what()),
                     "let whoever runs the cluster give it that right (`kafka-acls.sh`); what the service itself may "
                     "do is not known before"});
}
catch (std::exception const& error) {
    found.push_back({"broker", health::problem, std::string{"can't be examined: "} + error.what(),
                     "check that it runs, that SKALD_KAFKA_BROKERS names it, and that SKALD_KAFKA_PROPERTIES lets this "
                     "user in; until then requests are accepted and messages wait"});
}

}  // namespace skald::tools

#else

namespace skald::tools {
namespace {

constexpr char const* without_kafka =
    "this `skald` was built without Kafka: build it with librdkafka (-DSKALD_KAFKA=ON)";

}  // namespace

std::vector<std::string> make_kafka_topics(config const&, ports::subscriber const&)
{
    throw configuration_error{without_kafka};
}

std::int64_t waiting_in_kafka(config const&, std::string const&)
{
    throw configuration_error{without_kafka};
}

std::string foreign_in_kafka(config const&, postgres::ownership const&)
{
    throw configuration_error{without_kafka};
}

void examine_kafka(config const&, expected const&, findings& found)
{
    found.push_back({"broker", health::warning, std::string{"not examined: "} + without_kafka, ""});
}

}  // namespace skald::tools

#endif
