// A subscription whose connection has a thread of its own: the threads that handle deliveries meet it in a mailbox.
#pragma once

#include "ports/transport.hpp"
#include "transports/mailbox.hpp"

#include <chrono>
#include <exception>
#include <future>
#include <string>
#include <utility>
#include <vector>

namespace skald::transports {

/// What every such subscription does for its callers. Derived classes have the thread, and end it in their destructors:
/// it uses what is here.
class mailbox_subscription : public ports::subscription
{
public:
    std::vector<ports::delivery> take(std::size_t max, std::chrono::milliseconds wait) final
    {
        return mailbox_.take(max, wait);
    }
    void ack(ports::delivery_tag tag) final { mailbox_.ack(tag); }
    void requeue(ports::delivery_tag tag) final { mailbox_.requeue(tag); }
    void stop() final { mailbox_.stop(); }
    bool available() const final { return mailbox_.available(); }
    std::string last_error() const final { return mailbox_.last_error(); }

protected:
    /// Called by the constructor when the thread runs. Throws what report_first_attempt() is told.
    void wait_for_first_attempt() { first_attempt_.get_future().get(); }

    /// Called by the thread when an attempt to connect has ended. Only the first time counts.
    void report_first_attempt(std::exception_ptr error = {})
    {
        if (std::exchange(first_reported_, true)) return;
        if (error) first_attempt_.set_exception(std::move(error));
        else first_attempt_.set_value();
    }
    bool is_first_attempt() const { return !first_reported_; }  // likewise called by the thread

    mailbox mailbox_;

private:
    std::promise<void> first_attempt_;
    bool first_reported_{};
};

}  // namespace skald::transports
