#include "kafka/administration.hpp"

#include "kafka/kafka_publisher.hpp"
#include "kafka/offset_text.hpp"
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

using config_resource_ptr = std::unique_ptr<rd_kafka_ConfigResource_t, destroyer<rd_kafka_ConfigResource_destroy>>;

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

admin_options_ptr limited(client const& with, rd_kafka_admin_op_t what, std::chrono::milliseconds limit)
{
    admin_options_ptr how{rd_kafka_AdminOptions_new(with.raw(), what)};
    std::array<char, 512> why{};
    check(rd_kafka_AdminOptions_set_request_timeout(how.get(), static_cast<int>(limit.count()), why.data(), why.size()),
          why.data());
    return how;
}

// After the question's limit librdkafka itself answers, a little later. It may refuse: see the event.
event_ptr answer_in(rd_kafka_queue_t* answers, std::chrono::milliseconds limit, char const* doing)
{
    event_ptr answer{rd_kafka_queue_poll(answers, static_cast<int>((limit + 1s).count()))};
    auto const error = answer ? rd_kafka_event_error(answer.get()) : RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (is_passing(error)) check(error, doing);
    return answer;
}

}  // namespace

inspector::inspector(options const& settings, ports::subscriber const& who)
    : who_{who}, guarded_{settings.guarded}, group_{"skald." + who.service}, client_{RD_KAFKA_CONSUMER,
                                                                                     looking(settings, group_), *this}
{
    // What a service would not start with, or not send with.
    if (!settings.properties.empty()) check_publisher(connection_properties(settings));
    routes const all{who};
    own_ = all.own_topics();
    foreign_ = all.foreign_topics();
    client_.leave_without_a_word();  // it has joined none
}

// For a moment after a broker has started or a topic was made, an answer is that it is too early; and when one has
// gone, the others take longer to notice and to take over what it led.
inspection inspector::look(std::chrono::milliseconds patience)
{
    auto const begun = std::chrono::steady_clock::now();
    until_ = begun + patience;
    std::string away;
    for (;; std::this_thread::sleep_for(100ms)) {
        try {
            client_.poll();
            return look_once();
        }
        catch (client_lost const&) {
            throw;
        }
        catch (denied const& error) {
            throw denied{error.what() + needed()};
        }
        catch (kafka_unsettled const& error) {
            client_.poll();
            if (auto const why = client_.take_denial({}, {}); !why.empty()) throw denied{why + needed()};
            if (!client_.doubt().empty()) away = " (" + client_.doubt() + ")";
            if (std::chrono::steady_clock::now() > until_) throw kafka_unsettled{error.what() + away};
        }
        catch (kafka_error const&) {
            if (std::chrono::steady_clock::now() > begun + std::min(patience, looked_within)) throw;
        }
    }
}

std::string inspector::needed() const
{
    return give("Describe", "the service's topics and on the group " + group_ + "; the service's own needs `Read`");
}

// For one question.
std::chrono::milliseconds inspector::left() const
{
    auto const left = std::chrono::floor<std::chrono::milliseconds>(until_ - std::chrono::steady_clock::now());
    return std::clamp(left, 1ms, looked_within);
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
    lost_place lost{who_, guarded_};
    for (auto& topic : seen.topics)
        if (topic.partitions > 0 && topic.leaderless == 0) look_at(topic, seen, lost);
    // Of a topic that no process reads any more Kafka forgets where the group was, and the others go on. While a group
    // is dividing its work, none of its members has any.
    if (auto const read = look_at_members(seen); !read.empty()) seen.unread = lost.keep_only(read);
    if (!lost.empty()) {
        seen.lost = lost.why();
        seen.lost_remedy = lost.remedy(client_.brokers());
    }
    read_properties(seen.topics);
    return seen;
}

// What its group has done of it, and what there is.
void inspector::look_at(topic_inspection& topic, inspection& seen, lost_place& lost)
{
    auto const list = make_list(topic.partitions);
    for (int i = 0; i < topic.partitions; ++i) rd_kafka_topic_partition_list_add(list.get(), topic.name.c_str(), i);
    check(rd_kafka_committed(client_.raw(), list.get(), static_cast<int>(left().count())), "asking for what is done");
    for (auto const& one : std::span{list->elems, static_cast<std::size_t>(list->cnt)}) {
        auto const [low, high] = client_.extent_of({one.topic, one.partition}, left());
        auto text = text_beside(one);
        auto const database = text.substr(0, text.find(';'));
        if (seen.database.empty()) seen.database = database;
        text.remove_prefix(std::min(database.size() + 1, text.size()));
        place const where{one.topic, one.partition};
        if ((one.offset < 0 || one.offset > high) && low < high && lost.has_forgotten(client_, where, low, left()))
            lost.add(where);
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
    auto const limit = left();
    auto const how = limited(client_, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, limit);
    queue_ptr const answers{rd_kafka_queue_new(client_.raw())};
    rd_kafka_DescribeConfigs(client_.raw(), asked.data(), asked.size(), how.get(), answers.get());
    auto const answer = answer_in(answers.get(), limit, "asking for properties");
    if (rd_kafka_event_error(answer.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
    std::size_t count = 0;
    auto const* const* const found =
        rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(answer.get()), &count);
    for (auto const* const one : std::span{found, count}) {
        auto const topic = std::ranges::find(topics, rd_kafka_ConfigResource_name(one), &topic_inspection::name);
        if (topic != topics.end()) keep_properties(one, *topic);
    }
}

// Of the group's coordinator alone: rd_kafka_list_groups() asks every broker, and fails with the one that is away.
// Returns the topics that they read.
std::set<std::string> inspector::look_at_members(inspection& seen)
{
    constexpr auto doing = "asking who consumes";
    auto const limit = left();
    auto const how = limited(client_, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS, limit);
    queue_ptr const answers{rd_kafka_queue_new(client_.raw())};
    auto const* group = group_.c_str();
    rd_kafka_DescribeConsumerGroups(client_.raw(), &group, 1, how.get(), answers.get());
    auto const answer = answer_in(answers.get(), limit, doing);
    check(rd_kafka_event_error(answer.get()), doing);
    std::size_t count = 0;
    auto const* const* const groups = rd_kafka_DescribeConsumerGroups_result_groups(
        rd_kafka_event_DescribeConsumerGroups_result(answer.get()), &count);
    std::set<std::string> read;
    for (auto const* const one : std::span{groups, count}) {
        if (auto const* const error = rd_kafka_ConsumerGroupDescription_error(one); error != nullptr)
            check(rd_kafka_error_code(error), doing);
        auto const members = rd_kafka_ConsumerGroupDescription_member_count(one);
        seen.members += static_cast<int>(members);
        for (std::size_t i = 0; i < members; ++i) {
            auto const* const has = rd_kafka_MemberAssignment_partitions(
                rd_kafka_MemberDescription_assignment(rd_kafka_ConsumerGroupDescription_member(one, i)));
            if (has == nullptr) continue;
            for (auto const& part : std::span{has->elems, static_cast<std::size_t>(has->cnt)}) read.insert(part.topic);
        }
    }
    return read;
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
