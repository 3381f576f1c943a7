#include "kafka/consumer.hpp"

#include "core/failpoint.hpp"
#include "kafka/lost_place.hpp"
#include "kafka/offset_text.hpp"
#include "kafka/operator_commands.hpp"
#include "kafka/relied_on.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <span>
#include <utility>

namespace skald::kafka_detail {
namespace {

using namespace std::chrono_literals;

constexpr int answer_within_ms = 5'000;
constexpr auto commit_every = 100ms;
constexpr auto join_within = 5s;
// The group answers when each member has joined again, or its session has ended.
constexpr auto answered_within = 12s;

property_list properties_of(consumer_settings const& settings)
{
    property_list all{{"session.timeout.ms", "10000"},
                      {"heartbeat.interval.ms", "300"},
                      {"queued.min.messages", "1000"},
                      {"queued.max.messages.kbytes", "32768"},
                      {"fetch.wait.max.ms", "500"},
                      {"reconnect.backoff.max.ms", "1000"},
                      {"topic.metadata.refresh.interval.ms", "30000"}};  // a partition that was added is seen by then
    all.insert(all.end(), settings.properties.begin(), settings.properties.end());
    all.emplace_back("group.id", "skald." + settings.who.service);
    append(all, fixed_for_consumers);
    return all;
}

place place_of(rd_kafka_topic_partition_t const& one)
{
    return {one.topic, one.partition};
}

std::span<rd_kafka_topic_partition_t> all_of(rd_kafka_topic_partition_list_t const& list)
{
    return {list.elems, static_cast<std::size_t>(list.cnt)};
}

// As rd_kafka_commit(), but that waits for as long as it takes. An answer that comes later is for a queue that takes
// nothing any more, and to which librdkafka has a reference until then.
rd_kafka_resp_err_t commit_and_wait(rd_kafka_t* rk, rd_kafka_topic_partition_list_t const& list)
{
    queue_ptr const answers{rd_kafka_queue_new(rk)};
    auto const error = rd_kafka_commit_queue(rk, &list, answers.get(), nullptr, nullptr);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return error;
    event_ptr const answer{rd_kafka_queue_poll(answers.get(), answer_within_ms)};
    return answer ? rd_kafka_event_error(answer.get()) : RD_KAFKA_RESP_ERR__TIMED_OUT;
}

}  // namespace

consumer::consumer(consumer_settings const& settings, std::uint64_t generation, core::logger& log)
    : settings_{settings}, routes_{settings.who}, generation_{generation}, log_{log}, client_{RD_KAFKA_CONSUMER,
                                                                                              properties_of(settings),
                                                                                              *this}
{
    try {
        subscribe();
    }
    catch (...) {
        client_.leave_without_a_word();
        throw;
    }
}

consumer::~consumer()
{
    is_closing_ = true;
    // What the group has asked for already: once it is left, librdkafka would wait for good to be told the answer.
    while (message_ptr const ignored{rd_kafka_consumer_poll(client_.raw(), 0)}) {}
    for (auto const& [where, of] : partitions_) client::stop_waking_for(of.records.get());
    // Ending waits for what the group has asked for, and nobody would give it up any more.
    if (leaving_) error_ptr const ignored{rd_kafka_incremental_unassign(client_.raw(), leaving_.get())};
    // Before 2.3 librdkafka aborts the process if it is ended between joining and the group's first answer. One that is
    // left behind joins all the same, and has partitions that nobody reads.
    if (rd_kafka_version() >= 0x02030000 || !is_subscribed_ || is_assigned_) return;
    for (auto const until = clock::now() + answered_within; clock::now() < until;) {
        message_ptr const told{rd_kafka_consumer_poll(client_.raw(), 50)};
        // That it may not join is an answer, too: it asks again no sooner than a second later.
        if (is_assigned_ || (told && told->err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED)) return;
    }
    client_.abandon();
}

void consumer::subscribe()
{
    auto all = routes_.own_topics();
    if (settings_.declares) make_topics(client_, all, settings_.shape);
    all.insert(all.end(), routes_.foreign_topics().begin(), routes_.foreign_topics().end());
    // What was made just now is not looked for again: another broker of the cluster may not know of it yet.
    auto const& expected = settings_.declares ? routes_.foreign_topics() : all;
    if (auto const missing = missing_topics(client_, expected); !missing.empty())
        throw configuration_error{"Kafka has no topic `" + missing.front() +
                                  "`, or this user may not describe it: make it (one of Skald's is made where "
                                  "SKALD_DECLARE=on, one of others never), or give this user `Read` on it"};
    auto const list = make_list(static_cast<int>(all.size()));
    for (auto const& one : all) rd_kafka_topic_partition_list_add(list.get(), one.c_str(), RD_KAFKA_PARTITION_UA);
    check(rd_kafka_subscribe(client_.raw(), list.get()), "subscribing");
    is_subscribed_ = true;
}

// Calls of librdkafka in here must be made whatever happens, or the group waits for this process.
void consumer::rebalanced(rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t const* which)
{
    is_assigned_ = true;
    auto list = partition_list{rd_kafka_topic_partition_list_copy(which)};
    if (what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        client_.take_denial("", "");  // it has been let in since
        // The first one after a revoke belongs to it; with the next one this process has joined again.
        if (joins_until_ && ++assigned_since_ > 1) joins_until_.reset();
        return assign(*list);
    }
    if (leaving_) leave();
    leaving_ = std::move(list);
    bool const is_lost = rd_kafka_assignment_lost(client_.raw()) != 0;
    leave_until_ = clock::now() + (is_lost || is_closing_ || is_unsubscribed_ ? 0ms : settings_.drain);
    for (auto const& one : all_of(*leaving_)) {
        auto const found = partitions_.find(place_of(one));
        if (found == partitions_.end()) continue;
        found->second.is_leaving = true;
        found->second.next.reset();
        drop_waiting(found->first);
    }
    if (is_drained() || clock::now() >= leave_until_) leave();
}

void consumer::assign(rd_kafka_topic_partition_list_t& which)
{
    try {
        auto* const rk = client_.raw();
        check(rd_kafka_committed(rk, &which, answer_within_ms), "asking for what is done");
        for (auto& one : all_of(which)) open(one);
        if (which.cnt > 0) commit_and_wait(rk, which);  // what was not counted now is counted the next time
        is_uncommitted_ = true;
    }
    catch (std::exception const& error) {
        rd_kafka_incremental_assign(client_.raw(), &which);
        throw client_lost{error.what()};
    }
    check(rd_kafka_incremental_assign(client_.raw(), &which), "taking partitions");
}

// From where its last reader has left it; leaves in `one` what is to be said about it before anything is handed out.
void consumer::open(rd_kafka_topic_partition_t& one)
{
    auto const [low, high] = client_.extent_of(place_of(one), std::chrono::milliseconds{answer_within_ms});
    auto text = text_beside(one);
    auto const database = text.substr(0, text.find(';'));
    if (!database.empty() && !settings_.who.database.empty() && database != settings_.who.database)
        throw client_lost{belongs_to_another(settings_.who.service, std::string{database}) + ": " +
                          remedy_of_another(client_.brokers(), settings_.who.service)};
    text.remove_prefix(std::min(database.size() + 1, text.size()));
    say_what_was_deleted(one, low);
    // A topic that was made anew has nothing of what was committed of the old one.
    bool const is_known = one.offset >= 0 && one.offset <= high;
    if (!is_known) {
        lost_place const none{settings_.who, settings_.guarded};
        constexpr std::chrono::milliseconds within{answer_within_ms};
        if (low < high && none.has_forgotten(client_, place_of(one), low, within)) refuse_to_guess(place_of(one));
        one.offset = low;
    }
    progress done{one.offset, is_known ? text : ""};
    done.pass_gap(low);
    one.offset = done.head();

    queue_ptr records{rd_kafka_queue_get_partition(client_.raw(), one.topic, one.partition)};
    rd_kafka_queue_forward(records.get(), nullptr);  // so that they wait there until there is room
    client_.wake_for(records.get());
    auto const at = partitions_.insert_or_assign(place_of(one), partition{std::move(done), std::move(records)});
    // Before any is handed out: one that ends this process must be counted.
    std::size_t ahead = 0;
    for (std::size_t i = 0; i < routes_.size(); ++i) ahead += routes_[i].prefetch;
    write_beside(one, text_of(at.first->second, static_cast<std::int64_t>(ahead)));
}

// A limit of retention deletes what nobody has read, too. Nothing brings it back; somebody must know.
void consumer::say_what_was_deleted(rd_kafka_topic_partition_t const& one, std::int64_t low)
{
    // Of a topic of others a group that begins has no claim to what was there before.
    auto const begin = one.offset >= 0 ? one.offset : routes_.is_own(one.topic) ? 0 : low;
    if (begin >= low) return;
    log_.error("broker.deleted_unread",
               {{"topic", one.topic}, {"partition", std::int64_t{one.partition}}, {"from", begin}, {"to", low - 1}});
}

// Of all that the service reads, also where others have the partition: an operator says it once.
void consumer::refuse_to_guess(place const& met)
{
    constexpr std::chrono::milliseconds within{answer_within_ms};
    auto topics = routes_.own_topics();
    topics.insert(topics.end(), routes_.foreign_topics().begin(), routes_.foreign_topics().end());
    lost_place all{settings_.who, settings_.guarded};
    all.add(met);
    for (auto const& topic : topics) try {
            topic_ptr const asked{rd_kafka_topic_new(client_.raw(), topic.c_str(), nullptr)};
            auto const told = client_.metadata(false, within, asked.get());
            auto const list = make_list();
            for (int i = 0; told->topic_cnt == 1 && i < told->topics[0].partition_cnt; ++i)
                if (auto const& one = told->topics[0].partitions[i]; one.leader >= 0)
                    rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), one.id);
            if (list->cnt == 0) continue;
            check(rd_kafka_committed(client_.raw(), list.get(), answer_within_ms), "asking for what is done");
            for (auto const& one : all_of(*list)) {
                auto const [low, high] = client_.extent_of(place_of(one), within);
                bool const is_known = one.offset >= 0 && one.offset <= high;
                if (!is_known && low < high && all.has_forgotten(client_, place_of(one), low, within))
                    all.add(place_of(one));
            }
        }
        catch (kafka_error const&) {
            continue;  // what can't be asked now hides nothing of the others
        }
    throw client_lost{all.why() + ". S" + all.remedy(client_.brokers()).substr(1)};
}

bool consumer::is_drained() const
{
    return std::ranges::none_of(out_, [this](auto const& one) {
        auto const found = partitions_.find(one.second.from);
        return found != partitions_.end() && found->second.is_leaving;
    });
}

void consumer::leave()
{
    commit(true);
    for (auto const& one : all_of(*leaving_)) forget(place_of(one));
    auto const list = std::exchange(leaving_, nullptr);
    check(rd_kafka_incremental_unassign(client_.raw(), list.get()), "giving up partitions");
    joins_until_ = clock::now() + join_within;
    assigned_since_ = 0;
}

void consumer::forget(place const& where)
{
    drop_waiting(where);
    if (auto const of = partitions_.find(where); of != partitions_.end())
        client::stop_waking_for(of->second.records.get());
    std::erase_if(out_, [&](auto const& one) {
        bool const is_of_it = one.second.from == where;
        if (is_of_it) --routes_[one.second.to].out;
        return is_of_it;
    });
    partitions_.erase(where);
}

void consumer::drop_waiting(place const& where)
{
    std::erase_if(again_, [&](copy const& one) {
        if (one.from == where) --routes_[one.to].out;
        return one.from == where;
    });
}

void consumer::settle(transports::requests const& asked)
{
    for (auto const tag : asked.acks)
        if (auto const one = find_out(tag)) settle(*one);
    SKALD_FAILPOINT_IF(!asked.acks.empty(), "consumer.acked");
    for (auto const tag : asked.requeues) requeue(tag);
}

void consumer::settle(copy const& one)
{
    --routes_[one.to].out;
    auto& of = partitions_.at(one.from);
    auto const left = of.copies.find(one.record->offset);
    if (--left->second > 0) return;
    of.copies.erase(left);
    of.done.settle(one.record->offset);
    is_uncommitted_ = true;
}

void consumer::keep()
{
    client_.arrivals().clear();
    // Until it has joined, what was made just now may not be known to the broker that it asks.
    bool const knows_topics = is_assigned_;
    client_.poll();
    say_what_is_denied();
    auto const missing = client_.take_missing();
    if (knows_topics && routes_.is_own(missing.substr(0, missing.find(' ')))) throw client_lost{missing};
    if (is_assigned_) std::erase_if(unreadable_, [this](auto const& one) { return is_read_whole(one.first); });
    auto const now = clock::now();
    if (leaving_ && (is_drained() || now >= leave_until_)) leave();
    // Not before it has joined: who unsubscribes then never hears of it, and the end waits for that.
    if (is_stopping_ && is_assigned_ && !is_unsubscribed_ && (out_.empty() || now >= stop_until_)) {
        is_unsubscribed_ = true;
        rd_kafka_unsubscribe(client_.raw());
    }
    if (joins_until_ && now >= *joins_until_) joins_until_.reset();
    if (now >= next_commit_ && !joins_until_) commit(false);
    if (!client_.doubt().empty()) ask();
}

// Who has been let in before is so no more: what it has is not its own for long, and is not committed. Who has not goes
// on asking by itself, and must not be ended while it does (~consumer).
void consumer::say_what_is_denied()
{
    auto const why = client_.take_denial(give("Read", "the group skald." + settings_.who.service),
                                         give("Read", "the topics that the service consumes"));
    if (why.empty()) return;
    if (is_assigned_) throw client_lost{why};
    throw denied{why};
}

std::chrono::milliseconds consumer::patience() const
{
    bool const is_idle = out_.empty() && !leaving_ && !is_uncommitted_;
    return is_idle ? 1'000ms : commit_every;
}

std::string consumer::text_of(partition const& of, std::int64_t ahead) const
{
    return settings_.who.database + ";" + of.done.text(ahead);
}

void consumer::commit(bool waits)
{
    next_commit_ = clock::now() + commit_every;
    if (!std::exchange(is_uncommitted_, false)) return;
    auto const list = make_list(static_cast<int>(partitions_.size()));
    for (auto& [where, of] : partitions_) {
        auto text = text_of(of);
        auto const said = std::to_string(of.done.head()) + ";" + text;
        if (std::exchange(of.committed, said) == said) continue;
        auto* const one = rd_kafka_topic_partition_list_add(list.get(), where.first.c_str(), where.second);
        one->offset = of.done.head();
        write_beside(*one, text);
    }
    if (list->cnt == 0) return;
    auto const error = waits ? commit_and_wait(client_.raw(), *list) : rd_kafka_commit(client_.raw(), list.get(), 1);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) commit_failed();
}

void consumer::commit_failed()
{
    for (auto& [where, of] : partitions_) of.committed.clear();
    is_uncommitted_ = true;
}

void consumer::stop()
{
    if (std::exchange(is_stopping_, true)) return;
    stop_until_ = clock::now() + settings_.drain;
    for (auto const& [where, of] : partitions_) drop_waiting(where);
}

void consumer::close()
{
    is_closing_ = true;
    commit(true);
}

}  // namespace skald::kafka_detail
