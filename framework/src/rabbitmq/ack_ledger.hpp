// Which deliveries of one channel still wait for their ack, and how to settle many with few frames. Pure: no I/O.
//
// An ack for a tag that is not outstanding must never be sent: the broker closes the channel over it (406) and delivers
// everything else again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace skald::rabbitmq {

struct ack_frame
{
    std::uint64_t tag{};
    bool multiple{};

    friend bool operator==(ack_frame const&, ack_frame const&) = default;
};

class ack_ledger
{
public:
    void delivered(std::uint64_t tag) { outstanding_.emplace(tag, false); }

    /// To be acked with the next flush. Does nothing for a tag that is unknown or settled already.
    void ack(std::uint64_t tag);

    /// The tag goes back to the broker. False, and then nothing may be sent, if it is unknown or settled already.
    bool requeue(std::uint64_t tag);

    /// The frames that settle what was acked since the last flush, in order.
    std::vector<ack_frame> flush();

    std::size_t outstanding() const { return outstanding_.size(); }

private:
    std::map<std::uint64_t, bool> outstanding_;  // tag -> acked, but not flushed
    std::size_t unflushed_{};
};

}  // namespace skald::rabbitmq
