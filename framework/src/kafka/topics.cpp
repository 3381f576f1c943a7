#include "kafka/topics.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

namespace skald::kafka_detail {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds told_within = 2s;
constexpr std::chrono::milliseconds there_within = 10s;

new_topic_ptr wanted(std::string const& name, topic_shape const& shape)
{
    std::array<char, 512> why{};
    new_topic_ptr made{rd_kafka_NewTopic_new(name.c_str(), shape.partitions, shape.replicas > 0 ? shape.replicas : -1,
                                             why.data(), why.size())};
    if (!made) throw kafka_error{"the topic " + name + ": " + why.data()};
    auto const set = [&](char const* property, std::string const& value) {
        check(rd_kafka_NewTopic_set_config(made.get(), property, value.c_str()), property);
    };
    set("cleanup.policy", "delete");
    // A record that was deleted before somebody has consumed it is lost, and nobody would know.
    set("retention.ms", "-1");
    set("retention.bytes", "-1");
    set("max.message.bytes", std::to_string(record_bytes_max));
    set("unclean.leader.election.enable", "false");
    if (shape.in_sync_min > 0) set("min.insync.replicas", std::to_string(shape.in_sync_min));
    return made;
}

void check_made(rd_kafka_event_t const* answer)
{
    check(rd_kafka_event_error(const_cast<rd_kafka_event_t*>(answer)), "making topics");
    std::size_t count = 0;
    auto const* const made = rd_kafka_CreateTopics_result_topics(
        rd_kafka_event_CreateTopics_result(const_cast<rd_kafka_event_t*>(answer)), &count);
    for (std::size_t i = 0; i < count; ++i) {
        auto const error = rd_kafka_topic_result_error(made[i]);
        // Another process was faster.
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR || error == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) continue;
        auto const* const why = rd_kafka_topic_result_error_string(made[i]);
        std::string const name = rd_kafka_topic_result_name(made[i]);
        throw kafka_error{"the topic " + name + " can't be made: " + (why != nullptr ? why : rd_kafka_err2str(error)) +
                          (is_denial(error)
                               ? give("Create", "it, or on the cluster; or `Read`, where it is there and not seen")
                               : "")};
    }
}

}  // namespace

std::vector<std::string> missing_topics(client& with, std::vector<std::string> const& names)
{
    auto const there = with.topics(told_within);
    std::vector<std::string> missing;
    for (auto const& one : names)
        if (std::ranges::find(there, one) == there.end()) missing.push_back(one);
    return missing;
}

void make_topics(client& with, std::vector<std::string> const& names, topic_shape const& shape)
{
    auto missing = missing_topics(with, names);
    if (missing.empty()) return;
    std::vector<new_topic_ptr> all;
    std::vector<rd_kafka_NewTopic_t*> raw;
    for (auto const& one : missing) {
        all.push_back(wanted(one, shape));
        raw.push_back(all.back().get());
    }
    admin_options_ptr const options{rd_kafka_AdminOptions_new(with.raw(), RD_KAFKA_ADMIN_OP_CREATETOPICS)};
    auto const milliseconds = static_cast<int>(there_within.count());
    std::array<char, 512> why{};
    check(rd_kafka_AdminOptions_set_request_timeout(options.get(), milliseconds, why.data(), why.size()), why.data());
    check(rd_kafka_AdminOptions_set_operation_timeout(options.get(), milliseconds, why.data(), why.size()), why.data());
    queue_ptr const answers{rd_kafka_queue_new(with.raw())};
    rd_kafka_CreateTopics(with.raw(), raw.data(), raw.size(), options.get(), answers.get());
    event_ptr const answer{rd_kafka_queue_poll(answers.get(), 2 * milliseconds)};
    if (!answer) throw kafka_error{"making topics: no broker answers"};
    check_made(answer.get());

    // Kafka answers before every broker knows.
    auto const until = std::chrono::steady_clock::now() + there_within;
    while (missing = missing_topics(with, names), !missing.empty()) {
        if (std::chrono::steady_clock::now() > until)
            throw kafka_error{"the topic " + missing.front() +
                              " was made, or was there, and is not to be seen: a broker does not know it yet, or this "
                              "user may not describe it" +
                              give("Describe", "it then")};
        std::this_thread::sleep_for(std::chrono::milliseconds{100});
    }
}

}  // namespace skald::kafka_detail
