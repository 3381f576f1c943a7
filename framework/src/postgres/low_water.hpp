// Up to which time the outbox is known to be empty: where a search for due rows may begin, so that it does not walk
// over the dead rows of all that was sent since the oldest snapshot was taken (traps R4, R11).
//
// It may only be too low. A time can be the mark once every transaction that may have a row before it has ended, which
// takes two checks of which ones have the table locked; then the oldest row that is left bounds it. Rows of a clock
// that was set back, or with a due_at of their own, are found by an occasional search from the beginning.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace skald::postgres {

class connection;

/// Threads: one. Shared by the connections of one relay.
class low_water
{
public:
    using clock = std::chrono::steady_clock;

    /// A search from the beginning: about once per `purge_every`, and for no more than a hundredth of all time.
    explicit low_water(std::chrono::milliseconds purge_every = std::chrono::minutes{1}) : purge_every_{purge_every} {}

    /// Where the next search begins.
    std::string const& mark() const { return mark_; }

    /// The same, or the beginning of time when a search from there is due.
    std::string search_from(clock::time_point now);

    /// To be called after each such search: when it began and ended, and whether it found rows before mark().
    void searched(clock::time_point began, clock::time_point ended, bool found_behind);

    /// Tries to raise the mark; no more than about once a second, outside a transaction.
    void raise(connection& c, clock::time_point now);

private:
    bool all_have_ended(std::string const& writers_now) const;

    std::chrono::milliseconds purge_every_;
    std::string mark_{beginning};
    clock::time_point next_purge_{};
    clock::time_point next_raise_{};
    std::string candidate_;  // a time, and the transactions that may still have rows before it
    std::string writers_;

    bool is_full_search_{};

    static constexpr auto beginning = "-infinity";
};

}  // namespace skald::postgres
