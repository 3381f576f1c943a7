// Which of the messages sent on a channel the broker has answered. Pure: no I/O.
//
// Tags count from 1 on each channel. Acks and nacks come for one tag or for all up to one (`multiple`), in any order. A
// message that no queue wanted is returned first and then acked all the same, so an ack alone does not mean routed.
#pragma once

#include "ports/transport.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

namespace skald::rabbitmq {

class confirm_window
{
public:
    /// The tag that the next message on this channel gets.
    std::uint64_t next_tag() const { return oldest_ + entries_.size(); }

    /// Every message with a lower tag is resolved.
    std::uint64_t oldest_tag() const { return oldest_; }

    /// The message is being sent under next_tag(), to that exchange. Its receipt will be for `row`.
    void sent(std::int64_t row, std::string exchange = {});

    /// Not final: its ack or nack follows. Tags that are not outstanding are ignored, here and below.
    void returned(std::uint64_t tag, std::string reason);
    void acked(std::uint64_t tag, bool multiple);
    void nacked(std::uint64_t tag, bool multiple);

    /// All that is outstanding is resolved as `unresolved`, for this reason: an answer that comes later is ignored.
    void abandon(std::string const& why);

    /// Where what is outstanding was sent.
    std::set<std::string> exchanges() const;

    /// What is outstanding there is resolved as `barred`, for this reason.
    void bar(std::string const& exchange, std::string const& why);

    std::size_t outstanding() const { return outstanding_; }

    /// What was resolved since the last call.
    std::vector<ports::receipt> take_resolved();

private:
    struct entry
    {
        std::int64_t row{};
        bool outstanding{true};
        bool wanted{true};
        std::string returned;  // why, if it was returned
        std::string exchange{};
    };

    entry* find(std::uint64_t tag);
    void answer(std::uint64_t tag, bool multiple, bool positive);
    void resolve(entry& one, bool positive);
    void drop_resolved();

    std::deque<entry> entries_;  // by tag, from oldest_ on
    std::uint64_t oldest_{1};
    std::size_t outstanding_{};
    std::vector<ports::receipt> resolved_;
};

}  // namespace skald::rabbitmq
