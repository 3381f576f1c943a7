// How many connections each client's address has: what one address may not have more than, the others keep.
//
// A client of IPv6 has a /64 at least to choose its address from, so that is what counts as one.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include <boost/asio/ip/address.hpp>

#include "core/assert.hpp"

namespace skald::http {

/// Threads: one.
class peer_count
{
    using address = boost::asio::ip::address;
    using counts = std::map<address, std::size_t>;

public:
    /// One connection, for as long as it lives. The count outlives it.
    class place
    {
    public:
        place() = default;
        place(peer_count& of, counts::iterator at) : of_{&of}, at_{at} { ++at_->second; }
        place(place&& other) noexcept : of_{std::exchange(other.of_, nullptr)}, at_{other.at_} {}
        place& operator=(place&& other) noexcept
        {
            std::swap(of_, other.of_);
            std::swap(at_, other.at_);
            return *this;
        }
        ~place()
        {
            if (of_ == nullptr) return;
            SKALD_ASSERT(at_->second > 0);
            if (--at_->second == 0) of_->counts_.erase(at_);
        }

    private:
        peer_count* of_{nullptr};
        counts::iterator at_{};
    };

    /// `most` for each address; 0 is any number, and then nothing is counted.
    explicit peer_count(std::size_t most) : most_{most} {}

    /// Nothing if `peer` has as many as it may.
    std::optional<place> take(address const& peer)
    {
        if (most_ == 0) return place{};
        auto const at = counts_.try_emplace(network_of(peer), 0).first;
        if (at->second >= most_) return {};
        return place{*this, at};
    }

    std::size_t addresses() const { return counts_.size(); }

    static address network_of(address const& peer)
    {
        if (peer.is_v4()) return peer;
        auto bytes = peer.to_v6().to_bytes();
        if (peer.to_v6().is_v4_mapped())
            return boost::asio::ip::address_v4{{bytes[12], bytes[13], bytes[14], bytes[15]}};
        for (std::size_t i = 8; i < bytes.size(); ++i) bytes[i] = 0;
        return boost::asio::ip::address_v6{bytes};
    }

private:
    std::size_t const most_;
    counts counts_;
};

}  // namespace skald::http
