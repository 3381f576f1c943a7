// Started steps: those that have begun and not ended, each waiting for a call, a signal or a time. Rows of
// skald.started (sql/migrations/0014_started.sql); docs/adr/0041-started-steps-are-rows.md says why.
#pragma once

#include "core/identity.hpp"
#include "core/instant.hpp"
#include "core/message.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald::ports {

enum class started_kind { call, wait };

inline std::string_view name_of(started_kind kind)
{
    return kind == started_kind::call ? "call" : "wait";
}

/// One row, as one owner has it.
struct started_id
{
    core::saga_id saga;
    std::string step;  // with its ".compensate"
    int fence{};       // of the owner

    bool operator==(started_id const&) const = default;
};

/// A step that has begun, to be written with the transaction that began it.
struct new_started
{
    core::saga_id saga;
    std::string step;
    started_kind kind{};
    std::string dependency;
    std::chrono::milliseconds lease{};
    std::chrono::milliseconds unknown_after{};  // of a call
    std::chrono::milliseconds due_in{};
    std::optional<core::instant> deadline;
    core::message message;  // the delivery, with the data that the first transaction left
};

/// One that is given back, to be taken again.
struct started_release
{
    started_id id;
    std::chrono::milliseconds due_in{};
    bool is_in_doubt{};
    int looks{};
    int tries{};
    std::optional<std::string> answer{};  // JSON; what is known already stays
    bool waits_on{};                      // a wait that is over waits again
    bool is_uncalled{};                   // taken to be called, and not called after all
    bool is_shown{};                      // its saga is shown as unknown
    std::string why{};
};

/// What became of one that is to be given back.
enum class release_result {
    released,
    not_ours,  // it is somebody else's, or has ended
    locked,    // another transaction has the row: nothing was done, and it may be tried again
};

/// The table, as a process sees it.
/// Threads: one. Every function throws ports::fault, and then nothing is known of what it did: a row that was taken
/// comes due again when its lease ends.
class started_steps
{
public:
    struct taken
    {
        started_id id;
        started_kind kind{};
        bool was_in_doubt{};  // a call was made, and its outcome is not known
        bool is_unshown{};    // if that lasts, its saga is to be shown as unknown, which it is not
        int calls{};          // the one to be made now included
        int looks{};
        int tries{};
        std::optional<std::string> checkpoint;  // JSON, as the next
        std::optional<std::string> answer;
        std::string error;    // why it has not ended yet; empty: nothing is known
        std::string command;  // the latest for its saga: pause, resume, cancel, close; empty: none
        std::string command_reason;
        core::instant at{};
        std::chrono::milliseconds lease{};
        std::chrono::milliseconds in_doubt_for{};
        std::chrono::milliseconds left{};  // of a wait, until it is over
        core::message message;
    };

    struct held
    {
        started_id id;
        std::string checkpoint;  // JSON; empty: as before
    };

    struct renewal
    {
        bool is_ours{};
        bool is_extended{};   // not while another transaction has the row locked: nothing was written then
        std::string command;  // as in `taken`
    };

    virtual ~started_steps() = default;

    /// At most `most` that are due, each with a new fence.
    virtual std::vector<taken> take(std::string_view owner, started_kind kind, std::string_view dependency,
                                    std::size_t most) = 0;

    /// Calls that can end without the other side, whatever they call: an answer is known, the saga is cancelled, or its
    /// deadline is over. They do not wait for one that is ill.
    virtual std::vector<taken> take_ending(std::string_view owner, std::size_t most) = 0;

    /// Extends the leases, and waits for no lock; the result is in the order of `all`.
    virtual std::vector<renewal> renew(std::span<held const> all) = 0;

    /// For who looks from outside: a breaker that is not closed is kept, and one that is closed is forgotten.
    struct breaker
    {
        std::string dependency, state, why;
        std::uint64_t ok{}, failed{}, slow{};
        std::optional<std::chrono::milliseconds> tries_in;  // where it is open: until a call tries it
    };
    virtual void note(std::string_view owner, breaker const& one) = 0;

    /// Waits for no lock.
    virtual release_result release(started_release const& what) = 0;
};

}  // namespace skald::ports
