// Counts the connections of each client address, so that one address cannot take those of the others.
//
// An IPv6 client has at least a /64 from which to choose its address, so each /64 counts as one address.
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
    /// One connection, for as long as it lives. The count must outlive it.
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

    /// At most `most` for each address; 0 means unlimited, and then nothing is counted.
    explicit peer_count(std::size_t most) : most_{most} {}

    /// Nothing if `peer` already has as many as it may have.
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
