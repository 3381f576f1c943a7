// Which deliveries a record is for a service: Kafka has topics, and neither queues nor bindings.
#pragma once

#include "kafka/record.hpp"
#include "ports/transport.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skald::kafka_detail {

/// Of what a service takes, one part: what is for itself, or for one of its handlers.
struct route
{
    std::string handler;  // empty: itself
    std::size_t prefetch{};
    std::size_t out{};  // handed over and not settled
    bool has_room() const { return out < prefetch; }
};

/// What a record is, and the routes that get it.
struct routed_record
{
    core::message message;
    std::string problem;
    std::vector<std::size_t> to;  // none: it is nobody's here
    std::string handler{};        // of this service, that this process does not have: another one may
};

class routes
{
public:
    /// Throws configuration_error for what is bound in a way that Kafka does not have.
    explicit routes(ports::subscriber const& who);

    /// Of the service and what its handlers are bound to: those of Skald, which it may make; and those of others.
    std::vector<std::string> const& own_topics() const { return own_topics_; }
    std::vector<std::string> const& foreign_topics() const { return foreign_topics_; }

    bool is_own(std::string_view topic) const { return std::ranges::find(own_topics_, topic) != own_topics_.end(); }

    routed_record read(rd_kafka_message_t const& record) const;

    /// With the destination that its route has on every transport.
    core::message addressed(core::message m, std::size_t to) const;

    std::size_t size() const { return all_.size(); }
    route& operator[](std::size_t i) { return all_[i]; }
    route const& operator[](std::size_t i) const { return all_[i]; }

private:
    void bind(message_binding const& wanted, std::size_t to);

    std::string service_;
    std::vector<route> all_;
    std::multimap<std::string, std::size_t, std::less<>> by_destination_;
    std::multimap<std::string, std::size_t, std::less<>> by_foreign_topic_;
    std::vector<std::string> own_topics_;
    std::vector<std::string> foreign_topics_;
};

}  // namespace skald::kafka_detail
