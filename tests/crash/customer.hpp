// A client that does as it is told to: it sends its order until it has an answer, with one key,
// and remembers what it heard.
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
    int status{};      // 0: no answer
    std::string body;  // or why there is no answer

    /// It says that the request had no effect.
    bool is_promise() const { return status >= 400 && status != 409 && status != 503; }
};

/// Threads: what it says may be asked from any.
class customer
{
public:
    /// Begins to send at once.
    customer(shop_system const& shop, std::string key, std::string body);

    /// The answer that settles it: 202, or a 4xx that is none of "ask again".
    std::optional<heard> answer() const;

    /// Everything that it was told, in order.
    std::vector<heard> history() const;

    /// Lets it ask again after an answer that promised that nothing happened.
    void go_on() { looked_at_ = history().size(); }

    /// One request more, with the same key; where there is no answer yet, some more.
    heard ask_again() const;

private:
    void run(std::stop_token const& stop);
    heard ask(std::uint16_t port) const;

    shop_system const& shop_;
    std::string key_, body_;
    mutable std::mutex mutex_;
    std::vector<heard> history_;
    std::atomic<std::size_t> looked_at_{};
    std::jthread thread_;  // last: it uses the rest
};

}  // namespace skald::crash
