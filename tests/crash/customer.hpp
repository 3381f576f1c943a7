// A client that follows the protocol: it sends its order with one key until it has a response, and remembers every
// response.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "shop_system.hpp"

namespace skald::crash {

struct heard
{
    int status{};      // 0: no response
    std::string body;  // or why there is no response

    /// It says that the request had no effect.
    bool is_promise() const { return status >= 400 && status != 409 && status != 503; }
};

/// Threads: its results may be read from any.
class customer
{
public:
    /// Begins sending at once.
    customer(shop_system const& shop, std::string key, std::string body);

    /// The final response: 202, or a 4xx other than those that mean "send it again".
    std::optional<heard> answer() const;

    /// Every response, in order.
    std::vector<heard> history() const;

    /// Lets it send again after a response that promised that nothing had happened.
    void go_on() { looked_at_ = history().size(); }

    /// One more request with the same key; while there is no response, some more.
    heard ask_again() const;

private:
    void run(std::stop_token const& stop);
    heard ask(std::uint16_t port) const;

    shop_system const& shop_;
    std::string key_, body_;
    mutable std::mutex mutex_;
    std::vector<heard> history_;
    std::atomic<std::size_t> looked_at_{};
    std::jthread thread_;  // last: it uses the others
};

}  // namespace skald::crash
