#include "queues.hpp"

#include "kafka/administration.hpp"
#include "kafka/record.hpp"

#include <array>
#include <map>
#include <vector>

#include <fmt/format.h>

namespace order_demo {
namespace {

namespace kafka = skald::kafka_detail;

constexpr char const* mark_of_copies = "demo-copy";  // a header: what has it is not copied again
constexpr int partitions = 4;
constexpr int moment_max = 2'000;

/// Reads every record that comes into the services' topics, from no group, and writes it once more.
class copier final : private kafka::listener
{
public:
    copier(kafka::property_list const& properties, std::uint64_t seed)
        : random_{seed}, reader_{RD_KAFKA_CONSUMER, with_group(properties), *this}, writer_{RD_KAFKA_PRODUCER,
                                                                                            properties, *this}
    {
        reader_.leave_without_a_word();
        auto const list = kafka::make_list();
        for (auto const service : service_names)
            for (int i = 0; i < partitions; ++i)
                rd_kafka_topic_partition_list_add(list.get(), kafka::topic_of(service).c_str(), i)->offset =
                    RD_KAFKA_OFFSET_BEGINNING;
        kafka::check(rd_kafka_assign(reader_.raw(), list.get()), "reading the topics");
    }

    void work()
    {
        while (kafka::message_ptr one{rd_kafka_consumer_poll(reader_.raw(), 0)}) {
            if (one->err != RD_KAFKA_RESP_ERR_NO_ERROR || is_copy(*one)) continue;
            ++seen_;
            waiting_.emplace(due(), std::move(one));
        }
        auto const now = is_hurrying_ ? clock::time_point::max() : clock::now();
        auto const later = waiting_.upper_bound(now);
        for (auto i = waiting_.begin(); i != later; ++i) write(*i->second);
        waiting_.erase(waiting_.begin(), later);
        writer_.poll();
    }

    void hurry() { is_hurrying_ = true; }

    skald::tools::duplicated so_far() const { return {seen_, confirmed_, seen_ - confirmed_}; }

private:
    using clock = std::chrono::steady_clock;

    static kafka::property_list with_group(kafka::property_list all)
    {
        all.emplace_back("group.id", "demo-copies");  // joined by none: librdkafka asks for one
        all.emplace_back("enable.auto.commit", "false");
        return all;
    }

    static bool is_copy(rd_kafka_message_t const& one)
    {
        rd_kafka_headers_t* headers = nullptr;
        void const* value = nullptr;
        std::size_t size = 0;
        return rd_kafka_message_headers(&one, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR &&
               rd_kafka_header_get_last(headers, mark_of_copies, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
    }

    // A third at once, a third a moment later, and a third at the end.
    clock::time_point due()
    {
        switch (pick(random_, 1, 3)) {
        case 1: return clock::time_point::min();
        case 2: return clock::now() + std::chrono::milliseconds{pick(random_, 1, moment_max)};
        default: return clock::time_point::max();
        }
    }

    void write(rd_kafka_message_t const& original)
    {
        rd_kafka_headers_t* theirs = nullptr;
        kafka::check(rd_kafka_message_headers(&original, &theirs), "reading a record's headers");
        kafka::headers_ptr headers{rd_kafka_headers_copy(theirs)};
        rd_kafka_header_add(headers.get(), mark_of_copies, -1, "1", 1);
        std::array<rd_kafka_vu_t, 5> v{};
        v[0].vtype = RD_KAFKA_VTYPE_TOPIC;
        v[0].u.cstr = rd_kafka_topic_name(original.rkt);
        v[1].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
        v[1].u.i = RD_KAFKA_MSG_F_COPY | RD_KAFKA_MSG_F_BLOCK;
        v[2].vtype = RD_KAFKA_VTYPE_VALUE;
        v[2].u.mem = {original.payload, original.len};
        v[3].vtype = RD_KAFKA_VTYPE_KEY;
        v[3].u.mem = {original.key, original.key_len};
        v[4].vtype = RD_KAFKA_VTYPE_HEADERS;
        v[4].u.headers = headers.get();
        kafka::check(rd_kafka_produceva(writer_.raw(), v.data(), v.size()), "writing a copy");
        [[maybe_unused]] auto* const owned_by_record = headers.release();
    }

    void delivered(rd_kafka_message_t const& report) override
    {
        kafka::check(report.err, "writing a copy");
        ++confirmed_;
    }

    random_source random_;
    kafka::client reader_, writer_;
    std::multimap<clock::time_point, kafka::message_ptr> waiting_;
    bool is_hurrying_{};
    std::uint64_t seen_{}, confirmed_{};
};

class queues_in_kafka final : public queues
{
public:
    explicit queues_in_kafka(std::string brokers) : brokers_{std::move(brokers)}
    {
        settings_.name = "demo";
        settings_.brokers = brokers_;
        for (auto const service : service_names)
            observers_.push_back(
                std::make_unique<kafka::inspector>(settings_, skald::ports::subscriber{std::string{service}}));
    }

    std::optional<state> look_at(std::size_t service) override
    {
        auto const seen = observers_.at(service)->look();
        if (seen.topics.front().partitions == 0) return std::nullopt;
        return state{seen.topics.front().waiting, seen.members};
    }

    void copy_everything(std::uint64_t seed) override
    {
        copier_.emplace(kafka::connection_properties(settings_), seed);
    }

    void check() override
    {
        if (copier_) copier_->work();
    }
    void hurry() override { copier_->hurry(); }
    skald::tools::duplicated copied() override { return copier_ ? copier_->so_far() : skald::tools::duplicated{}; }

    std::map<std::string, std::string> variables() const override
    {
        return {{"SKALD_TRANSPORT", "kafka"},
                {"SKALD_KAFKA_BROKERS", brokers_},
                {"SKALD_KAFKA_PARTITIONS", std::to_string(partitions)}};
    }

private:
    std::string brokers_;
    kafka::options settings_;
    std::vector<std::unique_ptr<kafka::inspector>> observers_;
    std::optional<copier> copier_;  // once there are topics to read
};

}  // namespace

std::unique_ptr<queues> kafka_queues(std::string const& brokers)
{
    return std::make_unique<queues_in_kafka>(brokers);
}

}  // namespace order_demo
