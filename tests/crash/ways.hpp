// The ways that an order can go while something fails, and what must be true at its end.
#pragma once

#include <array>
#include <string_view>

namespace skald::crash {

/// What the harness does to an order in addition to the fault under test.
enum class disturbance {
    none,
    twice,      // every message of it is sent a second time, at once
    busy,       // another transaction holds the charge's key for a while, and rolls back
    unrouted,   // nothing is bound for payments until the first message has come back
    malformed,  // an unreadable delivery comes to payments as well
    overtaken,  // the charge's compensation arrives before the charge
    late,       // the charge arrives when the saga's deadline has passed
    paused,     // an operator pauses it before the charge, and resumes it when the charge has met the pause
    cancelled,  // an operator cancels it before the charge
    retried,    // an operator replays the parked refund
    swept,      // the services' maintenance expires it when it is old enough
    signalled,  // an operator signals it when it waits
    early,      // an operator signals it at once
    purged,     // an operator's `skald purge` expires it; each message comes again just before that is permitted
};

/// The gateway acts and does not answer; does not act and does not say so.
inline constexpr std::string_view no_answer = R"({"fault": "hang_up_after", "next": 1})";
inline constexpr std::string_view no_act = R"({"fault": "error_before", "next": 1})";

/// It consists of made-up messages only: no customer ordered anything.
constexpr bool is_made_up(disturbance besides)
{
    return besides == disturbance::overtaken || besides == disturbance::late;
}

/// The saga is gone at the end, with everything that is stored about it.
constexpr bool is_forgotten(disturbance besides)
{
    return besides == disturbance::swept || besides == disturbance::purged;
}

/// Another transaction holds the charge's key from the start.
constexpr bool begins_blocked(disturbance besides)
{
    return besides == disturbance::busy || besides == disturbance::paused || besides == disturbance::cancelled;
}

struct way
{
    std::string_view name;
    std::string_view habit;  // of the customer: tests/support/faulty_payment_service.cpp
    int money;               // in the wallet before; an order costs `price`
    int stock;               // before; an order takes 1
    std::string_view base;   // the way whose hits this one has too: only the others are run; empty: all are run
    disturbance besides;

    std::string_view ends;  // the saga's status
    int charges;
    int refunds;
    int shipments;

    int companions{};  // orders in addition to it that go `forward`: together.cpp

    // Not empty: a gateway charges and refunds, and these are its faults, as PUT /faults takes them.
    std::string_view gateway{};
    bool is_blind{};  // it ignores keys, and answers no look-up: an operator reads its list
    int waits_ms{};   // for how long it waits at most to be approved, before it is charged; 0: it does not
};

inline constexpr int price = 100;

inline constexpr std::array ways{
    way{"forward", "ann", 1000, 10, "", disturbance::none, "completed", 1, 0, 1},
    way{"back", "ann", 1000, 0, "", disturbance::none, "compensated", 1, 1, 0},
    way{"declined", "ann", 0, 10, "back", disturbance::none, "compensated", 0, 0, 0},
    way{"flaky", "flaky", 1000, 10, "forward", disturbance::none, "completed", 1, 0, 1},
    way{"snoozes", "snoozes", 1000, 10, "forward", disturbance::none, "completed", 1, 0, 1},
    way{"broken", "broken", 1000, 10, "flaky", disturbance::none, "compensated", 0, 0, 0},
    way{"swallows_error", "swallows_error", 1000, 10, "broken", disturbance::none, "compensated", 0, 0, 0},
    way{"commits_itself", "commits_itself", 1000, 10, "commits_itself", disturbance::none, "stuck", 0, 0, 0},
    way{"undo_fails_once", "undo_fails_once", 1000, 0, "back", disturbance::none, "compensated", 1, 1, 0},
    way{"twice", "ann", 1000, 10, "forward", disturbance::twice, "completed", 1, 0, 1},
    way{"twice-back", "ann", 1000, 0, "back", disturbance::twice, "compensated", 1, 1, 0},
    way{"busy", "ann", 1000, 10, "forward", disturbance::busy, "completed", 1, 0, 1},
    way{"unrouted", "ann", 1000, 10, "forward", disturbance::unrouted, "completed", 1, 0, 1},
    way{"malformed", "ann", 1000, 10, "forward", disturbance::malformed, "completed", 1, 0, 1},
    way{"overtaken", "ann", 1000, 10, "", disturbance::overtaken, "compensated", 0, 0, 0},
    way{"late", "ann", 1000, 10, "back", disturbance::late, "compensated", 0, 0, 0},
    way{"paused", "ann", 1000, 10, "busy", disturbance::paused, "completed", 1, 0, 1},
    way{"cancelled", "ann", 1000, 10, "back", disturbance::cancelled, "compensated", 0, 0, 0},
    way{"retried", "stubborn", 1000, 0, "undo_fails_once", disturbance::retried, "compensated", 1, 1, 0},
    way{"purged", "ann", 1000, 10, "swept", disturbance::purged, "completed", 1, 0, 1},
    way{"swept", "ann", 1000, 10, "twice", disturbance::swept, "completed", 1, 0, 1},
    way{"together", "ann", 1000, 10, "", disturbance::none, "completed", 1, 0, 1, 5},
    way{"together-one-declined", "ann", 0, 10, "together", disturbance::none, "compensated", 0, 0, 0, 5},
    way{"together-one-broken", "broken", 1000, 10, "together-one-declined", disturbance::none, "compensated", 0, 0, 0,
        5},
    way{"together-one-commits_itself", "commits_itself", 1000, 10, "together-one-commits_itself", disturbance::none,
        "stuck", 0, 0, 0, 5},
    way{"together-twice", "ann", 1000, 10, "", disturbance::twice, "completed", 1, 0, 1, 5},
    way{"called", "ann", 1000, 10, "", disturbance::none, "completed", 1, 0, 1, 0, "{}"},
    way{"called-back", "ann", 1000, 0, "called", disturbance::none, "compensated", 1, 1, 0, 0, "{}"},
    way{"called-unanswered", "ann", 1000, 10, "called", disturbance::none, "completed", 1, 0, 1, 0, no_answer},
    way{"called-in-vain", "ann", 1000, 10, "called-unanswered", disturbance::none, "completed", 1, 0, 1, 0, no_act},
    way{"called-blind", "ann", 1000, 10, "", disturbance::none, "completed", 1, 0, 1, 0, "{}", true},
    way{"signalled", "ann", 1000, 10, "", disturbance::signalled, "completed", 1, 0, 1, 0, "", false, 60'000},
    way{"signalled-early", "ann", 1000, 10, "", disturbance::early, "completed", 1, 0, 1, 0, "", false, 60'000},
    way{"timed-out", "ann", 1000, 10, "", disturbance::none, "compensated", 0, 0, 0, 0, "", false, 200},
};

/// The first of the ways: what the companions of an order do.
inline constexpr way const& forward = ways.front();

}  // namespace skald::crash
