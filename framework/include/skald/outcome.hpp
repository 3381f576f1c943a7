// How a step ends if nothing failed. A business rejection is a value; a fault is an exception, which no step has to
// catch.
#pragma once

#include <chrono>
#include <concepts>
#include <string>
#include <utility>
#include <variant>

namespace skald {

/// What done() returns.
struct done_outcome
{};

/// What reject() returns.
struct reject_outcome
{
    std::string reason;  // for people
};

/// What snooze() returns.
struct snooze_outcome
{
    std::chrono::milliseconds wait;  // before it runs again
};

/// The step has done its work; what it wrote commits together with the message to the next step.
inline done_outcome done()
{
    return {};
}

/// A business rejection. Nothing that the step wrote remains, it is never retried, and compensation starts at once.
/// `reason` is for people: it is stored, shown with the saga, and truncated to 1,000 bytes.
inline reject_outcome reject(std::string reason)
{
    return {std::move(reason)};
}

/// Not yet. Nothing that the step wrote remains; it runs again after `wait`, and this does not count as an attempt. A
/// wait of 0 or less, as for what is due already, is one of a second.
inline snooze_outcome snooze(std::chrono::milliseconds wait)
{
    return {wait.count() > 0 ? wait : std::chrono::seconds{1}};
}

/// What `execute` of a compensatable or pivot step returns: done(), reject(...) or snooze(...).
class outcome
{
public:
    outcome(done_outcome what) : what_{what} {}               // `return skald::done();`
    outcome(reject_outcome what) : what_{std::move(what)} {}  // `return skald::reject("out of stock");`
    outcome(snooze_outcome what) : what_{what} {}             // `return skald::snooze(5s);`

    bool is_done() const { return std::holds_alternative<done_outcome>(what_); }            // neither of the others
    reject_outcome const* rejected() const { return std::get_if<reject_outcome>(&what_); }  // nullptr if it was not
    snooze_outcome const* snoozed() const { return std::get_if<snooze_outcome>(&what_); }   // likewise

private:
    std::variant<done_outcome, reject_outcome, snooze_outcome> what_;
};

/// What `execute` of a retriable step returns: done() or snooze(...). After the pivot nothing can be compensated, so
/// there is no reject.
class forward_outcome
{
public:
    forward_outcome(done_outcome what) : what_{what} {}    // `return skald::done();`
    forward_outcome(snooze_outcome what) : what_{what} {}  // `return skald::snooze(5s);`

    /// Does not compile: the saga is past its pivot.
    template <std::same_as<reject_outcome> No>
    forward_outcome(No) : what_{done_outcome{}}
    {
        static_assert(!std::same_as<No, reject_outcome>,
                      "a retriable step can't reject: the saga is past its pivot, where nothing is undone any more. "
                      "Return done() or snooze(), or throw, and it is tried again");
    }

    operator outcome() const { return what_; }  // so that every kind of step yields the same type

private:
    outcome what_;
};

}  // namespace skald
