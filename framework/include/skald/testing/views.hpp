// What a test can observe.
#pragma once

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace skald::testing {

/// A message, as sent to the broker or as a service receives it.
///
/// `name` says which it is: the step that it is for (`charge-payment`, `charge-payment.compensate`), a step's report to
/// its saga's home (`charge-payment.progress`), what a step published (`charge-payment.1.receipt`), or an operator
/// command (`control@payments`). A second one of that name, such as the next attempt, is `charge-payment#2`.
struct message_view
{
    std::uint64_t number{};   // the kit's own, for replay()
    std::string name;         // which it is
    std::string destination;  // the routing key: a service, or what ctx.publish() was given
    std::string id;           // its message_id: the derived key, with a suffix for a message of yours
    std::string type;         // the step's name
    int attempt{1};           // from 1
    std::string body;         // the saga's data as JSON
};

/// The guard's record of a step in one service.
struct record_view
{
    std::string service;  // whose database has it
    std::string step;     // its name; with `.compensate` its compensation
    std::string status;   // completed, started, unknown, retrying, rejected, parked, cancelled
    int attempts{};       // so far
    std::string error;    // of the last one that failed, or why it did not run
};

/// A step that has begun and not ended.
struct started_view
{
    std::string service;                 // whose database has it
    std::string key;                     // its saga's
    std::string scope;                   // likewise
    std::string step;                    // its name; with `.compensate` its compensation
    std::string kind;                    // call, or wait: for a signal or a time
    bool is_in_doubt{};                  // a call was made, and what became of it is not known
    int calls{};                         // made so far
    std::string error;                   // of the last one that failed
    std::chrono::milliseconds due_in{};  // when it goes on by itself
};

/// A saga's row at its home.
struct saga_view
{
    std::string key;     // within its scope
    std::string status;  // running, unknown, compensating, completed, compensated, stuck; empty: there is no such saga
    std::string reason;  // why it compensates, is stuck, or is unknown
    std::string data;    // JSON, as it was started
};

/// The rows of a query, each as text: its columns, joined by " | "; NULL is "<null>".
class rows : public std::vector<std::string>
{
public:
    using std::vector<std::string>::vector;

    /// Prints them as {"o-1 | charge", "o-1 | refund"}, so that a check that fails shows what was there.
    friend std::ostream& operator<<(std::ostream& out, rows const& all);
};

}  // namespace skald::testing
