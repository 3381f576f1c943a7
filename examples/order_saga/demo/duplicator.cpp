#include "duplicator.hpp"

#include <string_view>
#include <utility>

#include <unistd.h>

#include <fmt/format.h>

namespace order_demo {
namespace {

constexpr std::string_view mark = "order_demo";

constexpr int wait_ms = 20;
constexpr std::size_t batch_max = 64;
// A delivery that is held back takes about 8 KiB. Beyond this many they are published at once.
constexpr std::size_t held_back_max = 20'000;
constexpr int moment_max_ms = 2'000;

}  // namespace

duplicator::duplicator(std::string const& broker_url, std::uint64_t seed)
    : consumer_{broker_url}, publisher_{broker_url}, random_{seed}
{
    consumer_.declare_exchange();
    consumer_.capture_everything(fmt::format("order_demo.captured.{}", ::getpid()));
    publisher_.expect_confirms();
    thread_ = std::jthread{[this](std::stop_token const& stop) {
        try {
            run(stop);
        }
        catch (...) {
            failure_ = std::current_exception();
            failed_ = true;
        }
    }};
}

void duplicator::check() const
{
    if (failed_) std::rethrow_exception(failure_);
}

void duplicator::run(std::stop_token const& stop)
{
    while (!stop.stop_requested()) {
        int wait = wait_ms;  // for the first delivery only; then take what is there
        for (std::size_t i = 0; i < batch_max && !stop.stop_requested(); ++i, wait = 0) {
            auto next = consumer_.next_delivery(wait);
            if (!next) break;
            if (next->app_id() != mark) take(std::move(next));
        }
        publish_due();
    }
}

void duplicator::take(std::unique_ptr<delivery> taken)
{
    captured_++;
    int const luck = pick(random_, 1, 3);
    if (luck == 1) {
        publish(std::move(taken));
    }
    else if (luck == 2 || !hold_back_ || held_back_.size() >= held_back_max) {
        std::chrono::milliseconds const moment{pick(random_, 1, moment_max_ms)};
        in_a_moment_.emplace(clock::now() + moment, std::move(taken));
    }
    else {
        held_back_.push_back(std::move(taken));
    }
}

void duplicator::publish_due()
{
    while (!in_a_moment_.empty() && in_a_moment_.begin()->first <= clock::now())
        publish(std::move(in_a_moment_.extract(in_a_moment_.begin()).mapped()));
    for (; !hold_back_ && !held_back_.empty() && under_way_.size() < batch_max; held_back_.pop_back())
        publish(std::move(held_back_.back()));
    publisher_.wait_for_confirms();
    replayed_ += static_cast<int>(under_way_.size());
    under_way_.clear();
}

void duplicator::publish(std::unique_ptr<delivery> copied)
{
    publisher_.publish_copy(*copied, mark);
    under_way_.push_back(std::move(copied));
}

}  // namespace order_demo
