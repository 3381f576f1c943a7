#include "kafka/kafka_publisher.hpp"

#include "core/failpoint.hpp"
#include "core/foreign_message.hpp"
#include "kafka/record.hpp"
#include "kafka/relied_on.hpp"
#include "kafka/rights.hpp"
#include "transports/message_limits.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <poll.h>

namespace skald::kafka_detail {
namespace {

using namespace std::chrono_literals;
using ports::publish_status;

constexpr std::chrono::milliseconds answer_within = 1s;
// Then another client is made, which reads its certificates again.
constexpr auto starts_within = 30s;

// Names that are asked for one by one, in a batch and in a client's life: each is a question, and librdkafka keeps it.
constexpr std::size_t asked_at_once_max = 4;
constexpr std::size_t asked_max = 1'000;

property_list properties_of(property_list all)
{
    property_list made{{"linger.ms", "1"},
                       {"queue.buffering.max.messages", "10000"},
                       {"queue.buffering.max.kbytes", "65536"},
                       {"reconnect.backoff.max.ms", "1000"},
                       {"partitioner", "murmur2_random"}};
    std::ranges::move(all, std::back_inserter(made));
    append(made, fixed_for_publishers);
    return made;
}

// A message that names an exchange is for a topic of others: that one, or, with an empty name, the one of its
// destination, as a queue on RabbitMQ's default exchange.
target target_of(core::message const& m)
{
    auto const exchange = core::find_header(m.headers, core::header::exchange);
    if (!exchange || *exchange == "skald") return {topic_of(m.destination)};
    if (exchange->empty()) return {m.destination};
    return {std::string{*exchange}, publish_status::barred};
}

// Where the topic does not exist, or does no longer.
ports::receipt no_topic(std::int64_t row, target const& to, std::string const& why = {})
{
    return {row, to.if_missing,
            "Kafka has no topic `" + to.topic + "`" +
                (why.empty() ? ", or this user may not describe it, who needs `Write` on it" : ": " + why)};
}

bool says_no_topic(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || error == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
           error == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

publish_status status_of(rd_kafka_message_t const& report)
{
    switch (report.err) {
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED: return publish_status::barred;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE: return publish_status::refused;
    default: break;
    }
    // What was not written for certain is put off by itself; of the rest nothing is known.
    return rd_kafka_message_status(&report) == RD_KAFKA_MSG_STATUS_NOT_PERSISTED ? publish_status::nacked
                                                                                 : publish_status::unresolved;
}

}  // namespace

void check_publisher(property_list properties)
try {
    std::erase_if(properties, [](auto const& one) { return one.first == "bootstrap.servers"; });
    listener nobody;
    client const tried{RD_KAFKA_PRODUCER, properties_of(std::move(properties)), nobody};
}
catch (configuration_error const& error) {
    throw configuration_error{std::string{"SKALD_KAFKA_PROPERTIES: "} + error.what()};
}

bool kafka_publisher::available()
{
    serve();
    if (!client_ && schedule_.due(clock::now())) connect();
    return client_ != nullptr;
}

void kafka_publisher::connect()
try {
    listener& me = *this;
    if (!starting_ || clock::now() >= starting_until_) {
        starting_ = std::make_unique<client>(RD_KAFKA_PRODUCER, properties_of(properties_), me);
        starting_until_ = clock::now() + starts_within;
    }
    learn_all_topics(*starting_);
    client_ = std::move(starting_);
    asked_.clear();
    last_offsets_.clear();
    schedule_.connected(clock::now());
    last_error_.clear();
    if (!is_denied_) greet();
}
catch (std::exception const& error) {
    lose(error.what());
}

void kafka_publisher::greet()
{
    is_denied_ = false;
    log_.info("broker.connected", {{"role", "publisher"}, {"broker", "kafka"}});
}

void kafka_publisher::lose(std::string const& why, bool is_denied)
{
    is_denied_ = is_denied;
    client_.reset();
    for (auto const& [number, one] : std::exchange(sent_, {}))
        receipts_.push_back({one.row, publish_status::unresolved, why});
    schedule_.failed(clock::now());
    last_error_ = why;
    auto const retry = std::chrono::ceil<std::chrono::milliseconds>(schedule_.next() - clock::now());
    log_.warning(
        "broker.lost",
        {{"role", "publisher"}, {"broker", "kafka"}, {"reason", why}, {"retry_ms", std::int64_t{retry.count()}}});
}

// Reports, doubts, and what is overdue.
void kafka_publisher::serve()
{
    if (!client_) return;
    try {
        client_->poll();
        if (!client_->doubt().empty()) client_->ask(answer_within);
        auto const late =
            std::ranges::find_if(sent_, [now = clock::now()](auto const& one) { return one.second.until <= now; });
        if (late != sent_.end()) throw kafka_error{"no confirm from " + late->second.to.topic + " in time"};
    }
    catch (denied const& error) {
        lose(error.what(), true);
    }
    catch (std::exception const& error) {
        lose(error.what());
    }
}

// A broker that takes a message for one that it has (by the producer's sequence numbers) confirms it, with that one's
// offset or with none. So does librdkafka. What is sent again at worst is there twice, and what is not may be nowhere.
bool kafka_publisher::has_place_of_its_own(rd_kafka_message_t const& report)
{
    if (report.offset < 0) return false;
    auto& last = last_offsets_.try_emplace({rd_kafka_topic_name(report.rkt), report.partition}, -1).first->second;
    return std::exchange(last, std::max(last, report.offset)) < report.offset;
}

void kafka_publisher::delivered(rd_kafka_message_t const& report)
{
    auto const one = *static_cast<sent const*>(report._private);  // lose() leaves no client that reports later
    sent_.erase(one.number);
    if (report.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (is_denied_) greet();
        if (has_place_of_its_own(report)) return receipts_.push_back({one.row, publish_status::confirmed, {}});
        receipts_.push_back({one.row, publish_status::unresolved, one.to.topic + ": confirmed without a new offset"});
        // Of a topic that was made again no offset is new until there are as many as in the old one. The next producer
        // knows of none, and begins with a sequence of its own.
        throw kafka_error{one.to.topic + ": a message was confirmed without a new offset"};
    }
    if (says_no_topic(report.err)) {
        topics_.erase(one.to.topic);
        receipts_.push_back(no_topic(one.row, one.to, rd_kafka_err2str(report.err)));
        return;
    }
    receipts_.push_back({one.row, status_of(report), why_not_sent(one.to, report.err)});
}

// A client that was given up reports the same of all that it has.
std::string kafka_publisher::why_not_sent(target const& to, rd_kafka_resp_err_t error) const
{
    auto const why = to.topic + ": " + rd_kafka_err2str(error);
    if (error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED) return why + give("Write", "that topic");
    bool const is_given_up = error == RD_KAFKA_RESP_ERR__FATAL || error == RD_KAFKA_RESP_ERR__PURGE_QUEUE ||
                             error == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
    auto const given_up = is_given_up ? client_->why_given_up() : "";
    return given_up.empty() ? why : to.topic + ": " + given_up;
}

void kafka_publisher::learn_all_topics(client& from)
{
    auto all = from.topics(answer_within);
    topics_ = {std::make_move_iterator(all.begin()), std::make_move_iterator(all.end())};
}

// Few are asked for by their names, many with the list of all. It creates none. What has no answer in time is put off,
// and nothing else: what is under way has answers of its own.
void kafka_publisher::learn_topics(std::span<ports::outgoing const> messages)
try {
    no_answer_.clear();
    std::set<std::string> unknown;
    for (auto const& one : messages)
        if (auto to = target_of(one.message); !topics_.contains(to.topic) && why_no_topic(to.topic).empty())
            unknown.insert(std::move(to.topic));
    if (unknown.empty()) return;
    auto const may_ask = [this](auto const& name) {
        return asked_.contains(name) || (asked_.size() < asked_max && asked_.insert(name).second);
    };
    if (unknown.size() > asked_at_once_max || !std::ranges::all_of(unknown, may_ask)) return learn_all_topics(*client_);
    auto const until = clock::now() + answer_within;
    for (auto const& one : unknown) {
        auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now());
        if (client_->has_topic(one, std::max(left, 1ms))) topics_.insert(one);
    }
}
catch (kafka_error const& error) {
    no_answer_ = error.what();
}

// Of one that is not known to exist.
ports::receipt kafka_publisher::unsent(std::int64_t row, target const& to) const
{
    auto const why = why_no_topic(to.topic);
    if (no_answer_.empty() || !why.empty()) return no_topic(row, to, why);
    return {row, publish_status::nacked, "whether Kafka has a topic `" + to.topic + "` is not known: " + no_answer_};
}

void kafka_publisher::send(std::span<ports::outgoing const> messages, std::chrono::milliseconds deadline)
{
    auto const until = clock::now() + deadline;
    if (available() && !messages.empty()) learn_topics(messages);
    SKALD_FAILPOINT("relay.sending");
    for (auto const& one : messages) send_one(one, until);
    SKALD_FAILPOINT("relay.sent");
}

void kafka_publisher::send_one(ports::outgoing const& one, clock::time_point until)
{
    if (auto why = transports::why_never_sent(one.message); !why.empty()) {
        receipts_.push_back({one.row, publish_status::refused, std::move(why)});
        return;
    }
    while (client_) {
        auto const to = target_of(one.message);
        if (!topics_.contains(to.topic)) {
            receipts_.push_back(unsent(one.row, to));
            return;
        }
        auto const number = ++last_number_;
        auto& entry = sent_.emplace(number, sent{number, one.row, to, until}).first->second;
        auto const error = enqueue(one, entry);
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
        sent_.erase(number);
        if (says_no_topic(error)) {
            topics_.erase(to.topic);
            receipts_.push_back(no_topic(one.row, to, rd_kafka_err2str(error)));
            return;
        }
        if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            // For a moment after a topic has refused one, the client itself refuses the others.
            auto const status = is_denial(error) ? publish_status::barred : publish_status::nacked;
            receipts_.push_back({one.row, status, why_not_sent(to, error)});
            return;
        }
        wait_until(std::min(until, clock::now() + 100ms));
        serve();  // loses the client when `until` is over
        if (clock::now() >= until) break;
    }
    receipts_.push_back({one.row, publish_status::unresolved, client_ ? "no time was left for it" : last_error_});
}

rd_kafka_resp_err_t kafka_publisher::enqueue(ports::outgoing const& one, sent& entry)
{
    auto const key = record_key(one.message);
    auto headers = write_headers(one.message);
    std::array<rd_kafka_vu_t, 6> v{};
    v[0].vtype = RD_KAFKA_VTYPE_TOPIC;
    v[0].u.cstr = entry.to.topic.c_str();
    v[1].vtype = RD_KAFKA_VTYPE_VALUE;
    v[1].u.mem = {const_cast<char*>(one.message.body.data()), one.message.body.size()};
    v[2].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
    v[2].u.i = RD_KAFKA_MSG_F_COPY;
    v[3].vtype = RD_KAFKA_VTYPE_HEADERS;
    v[3].u.headers = headers.get();
    v[4].vtype = RD_KAFKA_VTYPE_OPAQUE;
    v[4].u.ptr = &entry;
    v[5].vtype = RD_KAFKA_VTYPE_KEY;
    v[5].u.mem = {const_cast<char*>(key.data()), key.size()};
    error_ptr const error{rd_kafka_produceva(client_->raw(), v.data(), key.empty() ? v.size() - 1 : v.size())};
    if (error) return rd_kafka_error_code(error.get());
    [[maybe_unused]] auto* const owned_by_record = headers.release();
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

// Until there may be a report, or interrupt().
void kafka_publisher::wait_until(clock::time_point until)
{
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now());
    std::array<pollfd, 2> ready{
        {{interrupted_.descriptor(), POLLIN, 0}, {client_ ? client_->arrivals().descriptor() : -1, POLLIN, 0}}};
    ::poll(ready.data(), ready.size(), static_cast<int>(std::max(left, 0ms).count()));
    if (client_) client_->arrivals().clear();
}

std::vector<ports::receipt> kafka_publisher::collect(std::chrono::milliseconds wait)
{
    auto const until = clock::now() + std::min<std::chrono::milliseconds>(wait, 1h);
    serve();
    while (receipts_.empty() && clock::now() < until) {
        // What is overdue is looked for, and no descriptor tells of it.
        wait_until(sent_.empty() ? until : std::min(until, clock::now() + 100ms));
        pollfd interrupted{interrupted_.descriptor(), POLLIN, 0};
        serve();
        if (::poll(&interrupted, 1, 0) > 0) break;
    }
    interrupted_.clear();
    return std::exchange(receipts_, {});
}

}  // namespace skald::kafka_detail
