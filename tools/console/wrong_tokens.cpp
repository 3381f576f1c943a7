#include "wrong_tokens.hpp"

#include <algorithm>

namespace skald::console {

int wrong_tokens::count(std::string const& peer, clock::time_point now)
{
    std::lock_guard const lock{mutex_};
    if (!by_peer_.contains(peer)) make_room(now);
    auto& one = by_peer_.try_emplace(peer, tally{now}).first->second;
    if (now - one.since >= period) one = {now};
    return ++one.wrong;
}

std::chrono::seconds wrong_tokens::wait(std::string const& peer, clock::time_point now) const
{
    std::lock_guard const lock{mutex_};
    auto const it = by_peer_.find(peer);
    if (it == by_peer_.end() || it->second.wrong < count_max) return {};
    auto const left = std::chrono::ceil<std::chrono::seconds>(it->second.since + period - now);
    return std::max(left, std::chrono::seconds{0});
}

void wrong_tokens::make_room(clock::time_point now)
{
    if (by_peer_.size() < peers_max) return;
    std::erase_if(by_peer_, [&](auto const& one) { return now - one.second.since >= period; });
    if (by_peer_.size() < peers_max) return;
    by_peer_.erase(std::ranges::min_element(by_peer_, {}, [](auto const& one) { return one.second.since; }));
}

}  // namespace skald::console
