// Exchanges that the broker takes nothing for: this user may not write there, or there is none. Pure: the caller passes
// the time.
//
// The broker says so by closing the channel, and what is outstanding then may or may not have arrived. So nothing is
// sent there for a while, and then one message alone.
#pragma once

#include "core/backoff.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace skald::rabbitmq {

class barred_exchanges
{
public:
    using time_point = std::chrono::steady_clock::time_point;

    explicit barred_exchanges(core::backoff between_tries) : between_tries_{between_tries} {}

    void bar(std::string const& exchange, std::string why, time_point now)
    {
        if (all_.size() >= exchanges_max && !all_.contains(exchange)) all_.clear();  // they are found out again
        auto& one = all_[exchange];
        one = {std::move(why), one.times + 1, now + between_tries_.ceiling(one.times + 1)};
    }

    /// Something that was sent there was answered.
    void open(std::string_view exchange)
    {
        if (auto const it = all_.find(exchange); it != all_.end()) all_.erase(it);
    }

    /// Why nothing may be sent there now; empty if something may.
    std::string why_not(std::string_view exchange, time_point now) const
    {
        auto const it = all_.find(exchange);
        return it == all_.end() || now >= it->second.until ? std::string{} : it->second.why;
    }

    /// It was barred, and nothing that was sent there has been answered since.
    bool is_doubtful(std::string_view exchange) const { return all_.contains(exchange); }

private:
    static constexpr std::size_t exchanges_max = 1'000;

    struct barred
    {
        std::string why;
        int times{};
        time_point until{};
    };

    core::backoff between_tries_;
    std::map<std::string, barred, std::less<>> all_;
};

}  // namespace skald::rabbitmq
