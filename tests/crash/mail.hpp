// What is between the services: the queues of a broker, or the inboxes in their databases. The harness reads along, and
// sends messages that no service has sent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan.hpp"
#include "support/amqp_hands.hpp"
#include "support/fresh_database.hpp"
#include "support/service_process.hpp"

namespace skald::crash {

/// Threads: one.
class mail
{
public:
    virtual ~mail() = default;

    /// What a service or an operator needs in its environment.
    virtual test::environment variables() const = 0;

    /// To be called when all services are up: from now on it reads along.
    virtual void begin() = 0;

    /// Every message to a service since the last call; not those of send().
    virtual std::vector<test::raw_message> take_captured() = 0;

    virtual void send(test::raw_message const& message) = 0;

    /// As if payments had never been there, until that is undone; payments undoes it too, when it connects.
    virtual void cut_off_payments() = 0;
    virtual void restore_payments() = 0;

    /// Not those that a process has taken.
    virtual unsigned waiting_in(std::string_view service) = 0;

    /// Nothing waits, and no process has anything.
    virtual bool is_empty() = 0;

    /// Whether that takes so little time that it may decide when a run is over.
    virtual bool is_asked_quickly() const = 0;
};

/// In a virtual host of its own.
std::unique_ptr<mail> mail_by_broker();

using shop_databases = std::array<std::unique_ptr<test::fresh_database>, services.size()>;

/// The databases outlive it.
std::unique_ptr<mail> mail_by_inbox(shop_databases const& databases);

}  // namespace skald::crash
