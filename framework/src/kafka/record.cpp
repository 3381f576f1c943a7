#include "kafka/record.hpp"

#include "core/envelope.hpp"
#include "core/foreign_message.hpp"
#include "core/identity.hpp"

#include <algorithm>
#include <array>

namespace skald::kafka_detail {
namespace {

constexpr std::string_view topic_prefix = "skald.";
constexpr std::string_view of_handler = ".on.";
constexpr std::size_t topic_bytes_max = 249;

// Kafka has headers and nothing else: a message's properties are the first four, in this order, and may be empty.
// What follows is the message's own, also where it has the same name.
constexpr std::array<std::string_view, 4> properties{"skald.destination", "skald.id", "skald.type",
                                                     "skald.content-type"};

constexpr std::string_view content_type = "content-type";
constexpr std::string_view cloud_event = "ce_";
constexpr std::string_view cloud_event_over_amqp = "cloudEvents:";
constexpr std::string_view kafka_key = "kafka-key";

bool is_allowed_in_topic(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

core::header_list all_headers(rd_kafka_message_t const& record)
{
    core::header_list all;
    rd_kafka_headers_t* of_record = nullptr;
    if (rd_kafka_message_headers(&record, &of_record) != RD_KAFKA_RESP_ERR_NO_ERROR) return all;
    char const* name = nullptr;
    void const* value = nullptr;
    std::size_t size = 0;
    for (std::size_t i = 0; rd_kafka_header_get_all(of_record, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
         ++i)
        all.emplace_back(name, value == nullptr ? std::string{} : std::string{static_cast<char const*>(value), size});
    return all;
}

std::string why_not_ours(core::header_list const& headers)
{
    for (std::size_t i = 0; i < properties.size(); ++i)
        if (headers.size() <= i || headers[i].first != properties[i])
            return "Skald has not written this record: its header " + std::to_string(i + 1) + " is not `" +
                   std::string{properties[i]} + "`";
    return {};
}

void take_properties(core::message& m)
{
    std::array const into{&m.destination, &m.id, &m.type, &m.content_type};
    for (std::size_t i = 0; i < into.size(); ++i) *into[i] = std::move(m.headers[i].second);
    m.headers.erase(m.headers.begin(), m.headers.begin() + properties.size());
}

std::string bytes(void const* data, std::size_t size)
{
    return data == nullptr ? std::string{} : std::string{static_cast<char const*>(data), size};
}

}  // namespace

std::string topic_of(std::string_view destination)
{
    return std::string{topic_prefix} + std::string{destination.substr(0, destination.find(of_handler))};
}

std::string why_no_topic(std::string_view name)
{
    if (name.size() > topic_bytes_max) return "a topic's name has at most 249 bytes";
    if (!std::ranges::all_of(name, is_allowed_in_topic))
        return "a topic's name is of letters, digits, `.`, `_` and `-`";
    return {};
}

std::string record_key(core::message const& m)
{
    auto const derived = core::find_header(m.headers, core::header::idempotency_key);
    auto const parsed = core::parse_derived_key(derived.value_or(""));
    if (!parsed) return {};
    return std::string{core::find_header(m.headers, core::header::scope).value_or("")} + "/" + parsed->key;
}

headers_ptr write_headers(core::message const& m)
{
    headers_ptr made{rd_kafka_headers_new(properties.size() + m.headers.size())};
    auto const add = [&](std::string_view name, std::string const& value) {
        check(rd_kafka_header_add(made.get(), name.data(), static_cast<ssize_t>(name.size()), value.data(),
                                  static_cast<ssize_t>(value.size())),
              "writing a header");
    };
    std::array const values{&m.destination, &m.id, &m.type, &m.content_type};
    for (std::size_t i = 0; i < properties.size(); ++i) add(properties[i], *values[i]);
    for (auto const& [name, value] : m.headers) add(name, value);
    return made;
}

read_record read_own(rd_kafka_message_t const& record)
{
    read_record made;
    made.message.headers = all_headers(record);
    made.message.body = bytes(record.payload, record.len);
    made.problem = why_not_ours(made.message.headers);
    if (made.problem.empty()) take_properties(made.message);
    core::drop_headers_that_act(made.message);
    return made;
}

core::message read_foreign(rd_kafka_message_t const& record)
{
    core::message made;
    made.content_type.clear();
    made.body = bytes(record.payload, record.len);
    for (auto& [name, value] : all_headers(record)) {
        if (name == content_type) made.content_type = std::move(value);
        else if (name.starts_with(cloud_event))
            made.headers.emplace_back(std::string{cloud_event_over_amqp} + name.substr(cloud_event.size()),
                                      std::move(value));
        else if (name != kafka_key) made.headers.emplace_back(std::move(name), std::move(value));
    }
    if (record.key != nullptr) made.headers.emplace_back(kafka_key, bytes(record.key, record.key_len));
    core::drop_words_of_ours(made);
    core::drop_headers_that_act(made);
    return made;
}

}  // namespace skald::kafka_detail
