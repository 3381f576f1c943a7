// How many wrong tokens came from where, lately: whoever guesses must not get far.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace skald::console {

/// Threads: any.
class wrong_tokens
{
public:
    using clock = std::chrono::steady_clock;

    static constexpr int count_max = 10;  // from one address, within `period`
    static constexpr std::chrono::seconds period{60};
    static constexpr std::size_t peers_max = 4'096;  // addresses that are remembered

    /// Returns how many came from that address within `period`, this one included.
    int count(std::string const& peer, clock::time_point now);

    /// How long no token from that address is looked at; 0: the next one is.
    std::chrono::seconds wait(std::string const& peer, clock::time_point now) const;

private:
    struct tally
    {
        clock::time_point since;
        int wrong{};
    };

    void make_room(clock::time_point now);

    std::mutex mutable mutex_;
    std::map<std::string, tally> by_peer_;
};

}  // namespace skald::console
