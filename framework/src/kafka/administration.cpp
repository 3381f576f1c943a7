#include "kafka/administration.hpp"

#include "kafka/progress.hpp"
#include "kafka/routes.hpp"
#include "kafka/topics.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <string_view>
#include <thread>

namespace skald::kafka_detail {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds looked_within = 5s;
constexpr auto looked_within_ms = static_cast<int>(looked_within.count());

using config_resource_ptr = std::unique_ptr<rd_kafka_ConfigResource_t, destroyer<rd_kafka_ConfigResource_destroy>>;
using group_list_ptr = std::unique_ptr<rd_kafka_group_list const, destroyer<rd_kafka_group_list_destroy>>;

property_list looking(options const& settings, std::string const& group)
{
    auto all = connection_properties(settings);
    for (auto const& [name, value] :
         property_list{{"group.id", group}, {"enable.auto.commit", "false"}, {"allow.auto.create.topics", "false"}})
        all.emplace_back(name, value);
    return all;
}

// Of what is beyond the committed number, some is settled too.
std::int64_t count_waiting(std::int64_t from, std::int64_t end, std::string_view text)
{
    progress const done{from, text};
    auto waiting = end - from;
    for (auto i = from; i < std::min(end, from + progress::window); ++i) waiting -= done.is_settled(i);
    return waiting;
}

void count_replicas(rd_kafka_metadata_topic const& found, topic_inspection& topic)
{
    if (found.err != RD_KAFKA_RESP_ERR_NO_ERROR || found.partition_cnt == 0) return;
    topic.partitions = found.partition_cnt;
    topic.replicas = found.partitions[0].replica_cnt;
    topic.in_sync = found.partitions[0].isr_cnt;
    for (auto const& one : std::span{found.partitions, static_cast<std::size_t>(found.partition_cnt)}) {
        topic.replicas = std::min(topic.replicas, one.replica_cnt);
        topic.in_sync = std::min(topic.in_sync, one.isr_cnt);
        if (one.leader < 0) ++topic.leaderless;
    }
}

void keep_properties(rd_kafka_ConfigResource_t const* of, topic_inspection& topic)
{
    if (rd_kafka_ConfigResource_error(of) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
    std::size_t count = 0;
    auto const* const* const entries = rd_kafka_ConfigResource_configs(of, &count);
    for (auto const* const one : std::span{entries, count})
        if (auto const* const value = rd_kafka_ConfigEntry_value(one); value != nullptr)
            topic.properties.emplace(rd_kafka_ConfigEntry_name(one), value);
}

}  // namespace

inspector::inspector(options const& settings, ports::subscriber const& who)
    : group_{"skald." + who.service}, client_{RD_KAFKA_CONSUMER, looking(settings, group_), *this}
{
    routes const all{who};
    own_ = all.own_topics();
    foreign_ = all.foreign_topics();
    client_.leave_without_a_word();  // it has joined none
}

// For a moment after a broker has started or a topic was made, an answer is that it is too early.
inspection inspector::look()
{
    auto const until = std::chrono::steady_clock::now() + looked_within;
    for (;; std::this_thread::sleep_for(100ms)) {
        try {
            client_.poll();
            return look_once();
        }
        catch (client_lost const&) {
            throw;
        }
        catch (kafka_error const&) {
            if (std::chrono::steady_clock::now() > until) throw;
        }
    }
}

inspection inspector::look_once()
{
    auto const told = client_.metadata(true, looked_within);
    inspection seen;
    seen.brokers = told->broker_cnt;
    std::span const there{told->topics, static_cast<std::size_t>(told->topic_cnt)};
    auto const add = [&](std::string const& name, bool is_foreign) {
        topic_inspection topic{name, is_foreign};
        auto const found = std::ranges::find_if(there, [&](auto const& one) { return name == one.topic; });
        if (found != there.end()) count_replicas(*found, topic);
        seen.topics.push_back(std::move(topic));
    };
    for (auto const& name : own_) add(name, false);
    for (auto const& name : foreign_) add(name, true);
    read_properties(seen.topics);
    for (auto& topic : seen.topics)
        if (topic.partitions > 0 && topic.leaderless == 0) look_at(topic, seen);
    seen.members = count_members();
    return seen;
}

// What its group has done of it, and what there is.
void inspector::look_at(topic_inspection& topic, inspection& seen)
{
    auto const list = make_list(topic.partitions);
    for (int i = 0; i < topic.partitions; ++i) rd_kafka_topic_partition_list_add(list.get(), topic.name.c_str(), i);
    check(rd_kafka_committed(client_.raw(), list.get(), looked_within_ms), "asking for what is done");
    for (auto const& one : std::span{list->elems, static_cast<std::size_t>(list->cnt)}) {
        std::int64_t low = 0, high = 0;
        check(rd_kafka_query_watermark_offsets(client_.raw(), one.topic, one.partition, &low, &high, looked_within_ms),
              "asking where a partition ends");
        std::string_view text{static_cast<char const*>(one.metadata), one.metadata == nullptr ? 0 : one.metadata_size};
        auto const database = text.substr(0, text.find(';'));
        if (seen.database.empty()) seen.database = database;
        text.remove_prefix(std::min(database.size() + 1, text.size()));
        bool const is_known = one.offset >= low && one.offset <= high;
        topic.waiting += count_waiting(is_known ? one.offset : low, high, is_known ? text : "");
        if (!topic.is_foreign)
            topic.deleted_unread += std::max<std::int64_t>(low - std::max<std::int64_t>(one.offset, 0), 0);
    }
}

// Without an answer nothing is known of them: who may look at topics may not look at these.
void inspector::read_properties(std::vector<topic_inspection>& topics)
{
    std::vector<config_resource_ptr> owned;
    std::vector<rd_kafka_ConfigResource_t*> asked;
    for (auto const& one : topics) {
        if (one.partitions == 0) continue;
        owned.emplace_back(rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, one.name.c_str()));
        asked.push_back(owned.back().get());
    }
    if (asked.empty()) return;
    admin_options_ptr const how{rd_kafka_AdminOptions_new(client_.raw(), RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS)};
    std::array<char, 512> why{};
    check(rd_kafka_AdminOptions_set_request_timeout(how.get(), looked_within_ms, why.data(), why.size()), why.data());
    queue_ptr const answers{rd_kafka_queue_new(client_.raw())};
    rd_kafka_DescribeConfigs(client_.raw(), asked.data(), asked.size(), how.get(), answers.get());
    event_ptr const answer{rd_kafka_queue_poll(answers.get(), 2 * looked_within_ms)};
    if (!answer || rd_kafka_event_error(answer.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
    std::size_t count = 0;
    auto const* const* const found =
        rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(answer.get()), &count);
    for (auto const* const one : std::span{found, count}) {
        auto const topic = std::ranges::find(topics, rd_kafka_ConfigResource_name(one), &topic_inspection::name);
        if (topic != topics.end()) keep_properties(one, *topic);
    }
}

int inspector::count_members()
{
    struct rd_kafka_group_list const* told = nullptr;
    auto const error = rd_kafka_list_groups(client_.raw(), group_.c_str(), &told, looked_within_ms);
    group_list_ptr const groups{told};
    if (error != RD_KAFKA_RESP_ERR__PARTIAL) check(error, "asking who consumes");  // else a broker is away
    int members = 0;
    for (auto const& one : std::span{groups->groups, static_cast<std::size_t>(groups->group_cnt)}) {
        check(one.err, "asking who consumes");
        members += one.member_cnt;
    }
    return members;
}

std::vector<std::string> provision(options const& settings, ports::subscriber const& who)
{
    routes const all{who};
    listener nobody;
    client any{RD_KAFKA_PRODUCER, connection_properties(settings), nobody};
    make_topics(any, all.own_topics(), settings.shape);
    return all.own_topics();
}

}  // namespace skald::kafka_detail
