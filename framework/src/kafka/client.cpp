#include "kafka/client.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <future>
#include <thread>
#include <utility>

namespace skald::kafka_detail {
namespace {

using conf_ptr = std::unique_ptr<rd_kafka_conf_t, destroyer<rd_kafka_conf_destroy>>;

constexpr std::chrono::seconds end_within{5};
constexpr std::uint64_t one_event = 1;  // what an eventfd is written

// A topic or a partition was deleted, or never there.
bool is_gone(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || error == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
           error == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

// What librdkafka says of a connection ends with `(after 12ms in state CONNECT)`: each time another reason for the log.
std::string without_time(std::string reason)
{
    reason.erase(std::min(reason.rfind(" (after "), reason.size()));
    return reason;
}

std::vector<std::string> names_in(struct rd_kafka_metadata const& answer)
{
    std::vector<std::string> all;
    for (int i = 0; i < answer.topic_cnt; ++i)
        if (answer.topics[i].err == RD_KAFKA_RESP_ERR_NO_ERROR) all.emplace_back(answer.topics[i].topic);
    return all;
}

}  // namespace

client::client(rd_kafka_type_t kind, property_list const& properties, listener& told)
    : told_{told}, is_consumer_{kind == RD_KAFKA_CONSUMER}
{
    conf_ptr conf{rd_kafka_conf_new()};
    std::array<char, 512> why{};
    for (auto const& [name, value] : properties) {
        if (name == "bootstrap.servers") brokers_ = value;
        if (rd_kafka_conf_set(conf.get(), name.c_str(), value.c_str(), why.data(), why.size()) != RD_KAFKA_CONF_OK)
            throw configuration_error{"Kafka's property `" + name + "`: " + why.data()};
    }
    rd_kafka_conf_set_opaque(conf.get(), this);
    rd_kafka_conf_set_log_cb(conf.get(), nullptr);
    rd_kafka_conf_set_error_cb(conf.get(), [](rd_kafka_t*, int error, char const* reason, void* self) {
        static_cast<client*>(self)->doubt(static_cast<rd_kafka_resp_err_t>(error), reason);
    });
    is_consumer_ ? hear_as_consumer(conf.get()) : hear_as_producer(conf.get());
    raw_ = rd_kafka_new(kind, conf.get(), why.data(), why.size());
    if (raw_ == nullptr) throw configuration_error{"Kafka: " + std::string{why.data()}};
    [[maybe_unused]] auto* const owned_by_raw = conf.release();
    if (is_consumer_) rd_kafka_poll_set_consumer(raw_);
    queue_ptr const main{is_consumer_ ? rd_kafka_queue_get_consumer(raw_) : rd_kafka_queue_get_main(raw_)};
    wake_for(main.get());
}

void client::hear_as_consumer(rd_kafka_conf_t* conf)
{
    rd_kafka_conf_set_rebalance_cb(
        conf, [](rd_kafka_t*, rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t* which, void* self) {
            auto& me = *static_cast<client*>(self);
            me.guarded([&] { me.told_.rebalanced(what, which); });
        });
    rd_kafka_conf_set_offset_commit_cb(
        conf, [](rd_kafka_t*, rd_kafka_resp_err_t error, rd_kafka_topic_partition_list_t*, void* self) {
            auto& me = *static_cast<client*>(self);
            if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
            if (error == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED) me.deny(error, rd_kafka_err2str(error));
            me.guarded([&] { me.told_.commit_failed(); });
        });
}

void client::hear_as_producer(rd_kafka_conf_t* conf)
{
    rd_kafka_conf_set_dr_msg_cb(conf, [](rd_kafka_t*, rd_kafka_message_t const* report, void* self) {
        auto& me = *static_cast<client*>(self);
        me.guarded([&] { me.told_.delivered(*report); });
    });
}

client::~client()
{
    if (!is_abandoned_ && is_consumer_ && leaves_group_) leave();
    {
        queue_ptr const main{is_consumer_ ? rd_kafka_queue_get_consumer(raw_) : rd_kafka_queue_get_main(raw_)};
        stop_waking_for(main.get());
    }
    if (!is_abandoned_) end(raw_);
}

// rd_kafka_consumer_close() waits for as long as it takes.
void client::leave()
{
    queue_ptr const told{rd_kafka_queue_new(raw_)};
    if (error_ptr const refused{rd_kafka_consumer_close_queue(raw_, told.get())}) return;
    for (auto const until = std::chrono::steady_clock::now() + end_within; rd_kafka_consumer_closed(raw_) == 0;) {
        if (std::chrono::steady_clock::now() >= until) return abandon();
        // A record that was under way comes here, too, and nobody takes it. rd_kafka_queue_poll_callback() would abort
        // the process at one.
        message_ptr const ignored{rd_kafka_consume_queue(told.get(), 50)};
    }
}

// Before 2.6.1 librdkafka waits for good for a partition that was removed under it. A thread that does is left behind.
void client::end(rd_kafka_t* raw)
{
    std::promise<void> ended;
    auto const is_over = ended.get_future();
    std::thread{[raw, told = std::move(ended)]() mutable {
        rd_kafka_destroy_flags(raw, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
        told.set_value();
    }}.detach();
    is_over.wait_for(end_within);
}

void client::wake_for(rd_kafka_queue_t* queue) const
{
    rd_kafka_queue_io_event_enable(queue, arrivals_.descriptor(), &one_event, sizeof one_event);
}

void client::stop_waking_for(rd_kafka_queue_t* queue)
{
    rd_kafka_queue_io_event_enable(queue, -1, nullptr, 0);
}

void client::guarded(std::function<void()> const& tell) noexcept
try {
    tell();
}
catch (...) {
    if (!thrown_) thrown_ = std::current_exception();
}

void client::doubt(rd_kafka_resp_err_t error, char const* reason)
{
    // That all are down says less than what was wrong with one of them.
    if (error != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN || doubt_.empty()) doubt_ = without_time(reason);
    if (is_gone(error)) missing_ = reason;
    if (is_denial(error)) deny(error, reason);
    if (error == RD_KAFKA_RESP_ERR__FATAL) is_fatal_ = true;
}

void client::deny(rd_kafka_resp_err_t error, char const* reason)
{
    denial_of_ = error;
    denial_ = reason;
    if (denial_.ends_with('.')) denial_.pop_back();
}

std::string client::take_denial(std::string const& for_group, std::string const& for_topics)
{
    auto why = std::exchange(denial_, {});
    if (why.empty()) return why;
    return why + (denial_of_ == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED ? for_group : for_topics);
}

std::string client::why_given_up() const
{
    std::array<char, 512> why{};
    auto const error = rd_kafka_fatal_error(raw_, why.data(), why.size());
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return {};
    // A producer is asked for it before it sends anything.
    return why.data() + (!is_consumer_ && is_denial(error) ? give("Write", "the topics that it sends to") : "");
}

void client::poll()
{
    if (is_consumer_) {
        // Records have queues of their own (consumer.cpp): what comes here is an error.
        while (message_ptr const told{rd_kafka_consumer_poll(raw_, 0)}) {
            if (told->err == RD_KAFKA_RESP_ERR_NO_ERROR) throw client_lost{"a record came where none is looked for"};
            doubt(told->err, rd_kafka_message_errstr(told.get()));
        }
    }
    else {
        rd_kafka_poll(raw_, 0);
    }
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    if (is_fatal_) {
        std::array<char, 1> ignored{};
        auto const error = rd_kafka_fatal_error(raw_, ignored.data(), ignored.size());
        if (!is_consumer_ && is_denial(error)) throw denied{why_given_up()};
        throw client_lost{why_given_up()};
    }
}

// Without it nothing is told why no broker answers: librdkafka does while it is polled.
void client::hear_why()
{
    if (!is_consumer_) {
        rd_kafka_poll(raw_, 0);
        return;
    }
    while (message_ptr const told{rd_kafka_consumer_poll(raw_, 0)})
        if (told->err != RD_KAFKA_RESP_ERR_NO_ERROR) doubt(told->err, rd_kafka_message_errstr(told.get()));
}

metadata_ptr client::metadata(bool of_all, std::chrono::milliseconds timeout, rd_kafka_topic_t* of)
{
    struct rd_kafka_metadata const* answer = nullptr;
    auto const error = rd_kafka_metadata(raw_, of_all ? 1 : 0, of, &answer, static_cast<int>(timeout.count()));
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR && of_all && doubt_.empty()) hear_why();
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw kafka_error{"no broker answers at " + brokers_ + ": " +
                          (doubt_.empty() ? rd_kafka_err2str(error) : doubt_)};
    doubt_.clear();
    return metadata_ptr{answer};
}

// Before 2.3 rd_kafka_query_watermark_offsets() waits for as long as a leader is away that it has begun to ask.
extent client::extent_of(place const& where, std::chrono::milliseconds timeout)
{
    auto const until = std::chrono::steady_clock::now() + timeout;
    auto const ask = [&](std::int64_t end) {
        auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
        auto const list = make_list();
        rd_kafka_topic_partition_list_add(list.get(), where.first.c_str(), where.second)->offset = end;
        check(rd_kafka_offsets_for_times(raw_, list.get(), static_cast<int>(std::max(left.count(), std::int64_t{1}))),
              "asking where a partition begins and ends");
        check(list->elems[0].err, "asking where a partition begins and ends");
        return list->elems[0].offset;
    };
    auto const low = ask(RD_KAFKA_OFFSET_BEGINNING);
    return {low, ask(RD_KAFKA_OFFSET_END)};
}

void client::ask(std::chrono::milliseconds timeout)
{
    metadata(false, timeout);
}

std::vector<std::string> client::topics(std::chrono::milliseconds timeout)
{
    return names_in(*metadata(true, timeout));
}

bool client::has_topic(std::string const& name, std::chrono::milliseconds timeout)
{
    topic_ptr const asked{rd_kafka_topic_new(raw_, name.c_str(), nullptr)};
    if (!asked) return false;
    return !names_in(*metadata(false, timeout, asked.get())).empty();
}

}  // namespace skald::kafka_detail
