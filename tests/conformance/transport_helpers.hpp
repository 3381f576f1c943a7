// What the tests of transports share: making messages, and waiting for things without sleeping blindly.
#pragma once

#include "ports/transport.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace skald::test {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using ports::publish_status;
using testing::wait_until;

/// Longer than anything takes on a busy machine: only a failure waits for it.
inline constexpr auto patience = 20s;

/// Long enough for something that must not happen to happen.
inline constexpr auto short_while = 300ms;

/// Handlers that the claims give a service of theirs.
inline constexpr std::array handlers_of_claims{"one", "two"};

inline core::message message_for(std::string const& service, std::string id = "order-1:charge-payment")
{
    core::message message;
    message.destination = service;
    message.id = std::move(id);
    message.type = "charge-payment";
    message.headers = {{"x-idempotency-key", message.id}, {"x-saga", "place-order"}};
    message.body = R"({"cents":100})";
    return message;
}

inline std::vector<ports::outgoing> batch(std::vector<core::message> messages)
{
    std::vector<ports::outgoing> rows;
    for (auto& message : messages) rows.push_back({static_cast<std::int64_t>(100 + rows.size()), std::move(message)});
    return rows;
}

/// `count` messages with the ids `<prefix>0`, `<prefix>1`, ...
inline std::vector<ports::outgoing> numbered(std::string const& service, int count, std::string const& prefix = "m")
{
    std::vector<core::message> messages;
    for (int i = 0; i < count; ++i) messages.push_back(message_for(service, prefix + std::to_string(i)));
    return batch(std::move(messages));
}

/// Sends, and waits until each has its receipt: they come in any order, and are put into that of the messages.
inline std::vector<ports::receipt> publish(ports::publisher& publisher, std::vector<ports::outgoing> const& rows,
                                           std::chrono::milliseconds deadline = patience)
{
    auto numbered = rows;
    for (std::size_t i = 0; i < numbered.size(); ++i) numbered[i].row = static_cast<std::int64_t>(i);
    publisher.send(numbered, deadline);
    std::vector<ports::receipt> receipts(rows.size());
    std::set<std::int64_t> seen;
    auto const until = clock::now() + deadline + patience;
    while (seen.size() < rows.size() && clock::now() < until)
        for (auto& one : publisher.collect(100ms)) {
            CHECK_MESSAGE(seen.insert(one.row).second, "row ", one.row, " has two receipts");
            receipts.at(static_cast<std::size_t>(one.row)) = one;
        }
    CHECK(seen.size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) receipts[i].row = rows[i].row;
    return receipts;
}

/// Publishes, and once more what is unresolved, until nothing is.
inline std::vector<publish_status> publish_until_answered(ports::publisher& publisher,
                                                          std::vector<ports::outgoing> const& rows)
{
    std::vector<publish_status> answers;
    for (auto const& row : rows) {
        auto status = publish_status::unresolved;
        CHECK(wait_until([&] {
            return publisher.available() &&
                   (status = publish(publisher, {row}).front().status) != publish_status::unresolved;
        }));
        answers.push_back(status);
    }
    return answers;
}

inline bool all_confirmed(std::vector<ports::receipt> const& receipts)
{
    for (auto const& one : receipts)
        if (one.status != publish_status::confirmed) {
            MESSAGE("row ", one.row, " has status ", static_cast<int>(one.status), ": ", one.reason);
            return false;
        }
    return true;
}

inline core::header_list in_order_of_name(core::header_list headers)
{
    std::ranges::sort(headers);
    return headers;
}

/// Takes until there are `count`, or until `patience` is over.
inline std::vector<ports::delivery> collect(ports::subscription& from, std::size_t count)
{
    std::vector<ports::delivery> all;
    auto const until = clock::now() + patience;
    while (all.size() < count && clock::now() < until)
        for (auto& one : from.take(count - all.size(), 100ms)) all.push_back(std::move(one));
    return all;
}

/// Takes and acks until there are `count` different ids, or until `patience` is over.
inline std::set<std::string> collect_ids(ports::subscription& from, std::size_t count)
{
    std::set<std::string> ids;
    auto const until = clock::now() + patience;
    while (ids.size() < count && clock::now() < until)
        for (auto const& one : from.take(64, 100ms)) {
            ids.insert(one.message.id);
            from.ack(one.tag);
        }
    return ids;
}

inline bool nothing_comes(ports::subscription& from)
{
    return from.take(1, short_while).empty();
}

inline void ack_all(ports::subscription& subscription, std::vector<ports::delivery> const& deliveries)
{
    for (auto const& one : deliveries) subscription.ack(one.tag);
}

}  // namespace skald::test
