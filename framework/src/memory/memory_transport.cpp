#include "memory/memory_transport.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace skald::memory {
namespace {

class memory_publisher final : public ports::publisher
{
public:
    explicit memory_publisher(std::shared_ptr<broker> at) : broker_{std::move(at)} {}

    bool available() override { return last_error().empty(); }
    std::string last_error() const override { return broker_->publishers_last_error(); }

    void send(std::span<ports::outgoing const> messages, std::chrono::milliseconds) override
    {
        for (auto const& one : messages) receipts_.push_back(broker_->publish(one));
    }

    std::vector<ports::receipt> collect(std::chrono::milliseconds wait) override
    {
        std::unique_lock lock{mutex_};
        if (receipts_.empty())
            interrupted_.wait_for(lock, std::min<std::chrono::milliseconds>(wait, std::chrono::seconds{1}),
                                  [this] { return is_interrupted_; });
        is_interrupted_ = false;
        return std::exchange(receipts_, {});
    }

    void interrupt() noexcept override
    {
        std::lock_guard const lock{mutex_};
        is_interrupted_ = true;
        interrupted_.notify_one();
    }

private:
    std::shared_ptr<broker> broker_;
    std::vector<ports::receipt> receipts_;
    std::mutex mutex_;
    std::condition_variable interrupted_;
    bool is_interrupted_{};
};

class memory_subscription final : public ports::subscription
{
public:
    memory_subscription(std::shared_ptr<broker> at, ports::subscriber const& who)
        : broker_{std::move(at)}, consumer_{broker_->subscribe(who)}
    {}
    ~memory_subscription() override { broker_->unsubscribe(consumer_); }

    std::vector<ports::delivery> take(std::size_t max, std::chrono::milliseconds wait) override
    {
        return broker_->take(consumer_, max, wait);
    }
    void ack(ports::delivery_tag tag) override { broker_->ack(consumer_, tag); }
    void requeue(ports::delivery_tag tag) override { broker_->requeue(consumer_, tag); }
    void stop() override { broker_->stop(consumer_); }
    bool available() const override { return last_error().empty(); }
    std::string last_error() const override { return broker_->last_error_of(consumer_); }

private:
    std::shared_ptr<broker> broker_;
    std::uint64_t consumer_;
};

}  // namespace

std::unique_ptr<ports::publisher> memory_transport::open_publisher()
{
    return std::make_unique<memory_publisher>(broker_);
}

std::unique_ptr<ports::subscription> memory_transport::subscribe(ports::subscriber const& who)
{
    if (who.service.empty()) throw std::invalid_argument{"a service's name must not be empty"};
    if (who.prefetch == 0) throw std::invalid_argument{"a prefetch of 0 would be unlimited"};
    return std::make_unique<memory_subscription>(broker_, who);
}

void memory_transport::inject(core::message const& message, std::string const& problem)
{
    broker_->inject(message, problem);
}

}  // namespace skald::memory
