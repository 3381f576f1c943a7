// Which deliveries of one channel still await their ack, and how to ack many with few frames. Pure: no I/O.
//
// An ack for a tag that is not outstanding must never be sent: the broker would close the channel (406) and deliver
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

    /// To be acked with the next flush. Does nothing for a tag that is unknown or already acked or returned.
    void ack(std::uint64_t tag);

    /// The tag goes back to the broker. False if it is unknown or already acked or returned: then nothing may be sent.
    bool requeue(std::uint64_t tag);

    /// The frames that ack what was acked since the last flush, in order.
    std::vector<ack_frame> flush();

    std::size_t outstanding() const { return outstanding_.size(); }

private:
    std::map<std::uint64_t, bool> outstanding_;  // tag -> acked, but not flushed
    std::size_t unflushed_{};
};

}  // namespace skald::rabbitmq
