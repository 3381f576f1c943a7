#include "runtime/policy.hpp"

namespace skald::runtime {

reaction react(failure what, situation const& s)
{
    bool const is_one = s.members == 1;
    auto const unless_recording = s.is_recording ? reaction::again : reaction::record;
    switch (what) {
    case failure::member_ended:
        if (is_one) return reaction::record;
        return s.took_long ? reaction::each_alone : reaction::guard_each;
    case failure::lock_timeout:
        return s.rolled_back < lock_timeouts_max ? reaction::again : is_one ? unless_recording : reaction::each_alone;
    case failure::contended:
        return s.rolled_back < contended_max ? reaction::again : is_one ? unless_recording : reaction::each_alone;
    case failure::suspect:
        if (!is_one) return reaction::each_alone;
        return s.rolled_back < suspect_max ? reaction::again : unless_recording;
    case failure::in_flight: return is_one ? reaction::again : reaction::each_alone;
    case failure::transaction_ended: return is_one ? unless_recording : reaction::each_alone;
    case failure::refused:
        if (!is_one) return reaction::each_alone;
        return s.finished || s.is_recording ? unless_recording : reaction::finish_first;
    case failure::connection_lost:
    case failure::in_doubt:
        if (!is_one) return reaction::each_alone;
        return s.lost + s.returns / returns_per_loss < lost_max ? reaction::again : unless_recording;
    // It would take as long the next time. The claim that records it finds out whether COMMIT got through.
    case failure::silent: return is_one ? unless_recording : reaction::each_alone;
    case failure::unavailable: return reaction::again;
    }
    return reaction::again;
}

failure failure_of(ports::fault const& met, bool is_claimed)
{
    if (met.outlasted_silence && is_claimed) return failure::silent;
    switch (met.kind) {
    case ports::fault_kind::contended: return failure::contended;
    case ports::fault_kind::lock_timeout: return failure::lock_timeout;
    case ports::fault_kind::retry_at_once: return failure::suspect;
    case ports::fault_kind::unavailable: return failure::unavailable;
    case ports::fault_kind::connection_lost: return is_claimed ? failure::connection_lost : failure::unavailable;
    case ports::fault_kind::in_doubt: return failure::in_doubt;
    case ports::fault_kind::transaction_ended: return failure::transaction_ended;
    case ports::fault_kind::broken: return failure::refused;
    }
    return failure::refused;
}

std::string_view name_of(failure what)
{
    switch (what) {
    case failure::member_ended: return "member_ended";
    case failure::contended: return "contended";
    case failure::lock_timeout: return "lock_timeout";
    case failure::in_flight: return "in_flight";
    case failure::suspect: return "suspect";
    case failure::unavailable: return "unavailable";
    case failure::connection_lost: return "connection_lost";
    case failure::in_doubt: return "in_doubt";
    case failure::silent: return "silent";
    case failure::transaction_ended: return "transaction_ended";
    case failure::refused: return "refused";
    }
    return "";
}

}  // namespace skald::runtime
