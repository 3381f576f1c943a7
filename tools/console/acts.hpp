// What an operator does from a page: the same SQL functions as the command line, with a role of its own. Each is shown
// before it is done.
#pragma once

#include "databases.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace skald::console {

enum class verb { cancel, pause, resume, retry, replay, drop };

std::optional<verb> parse_verb(std::string const& text);
std::string name_of(verb what);

/// Replay and drop are done to parked deliveries, the others to sagas.
bool is_of_parked(verb what);

/// A saga at its home, or a parked delivery.
struct target
{
    std::string service;
    std::string scope{};
    std::string key{};
    std::int64_t id{};
};

/// Of a form: "home\nscope\nkey", or "service\nid". Nothing if it is neither.
std::optional<target> parse_target(verb what, std::string const& text);
std::string write_target(verb what, target const& of);

/// What would become of it.
struct prospect
{
    target of;
    std::string about;           // its definition, or its step
    std::string state;           // its status, or the reason for which it is parked
    std::string refused;         // why it can't be done; empty: it can
    bool is_waited_for{};        // a saga is stuck on it
    std::string asked_before{};  // when and by whom the same was asked for, if that is the latest command
};

std::vector<prospect> look_ahead(databases const& all, verb what, std::vector<target> const& targets);

struct order
{
    verb what{};
    std::string reason;
    std::string by;
    bool forced{};  // drop it although a saga waits for it
};

/// What was done, in a sentence; or why not.
struct result
{
    enum class outcome {
        done,
        refused,    // nothing was done
        not_tried,  // its database was away, or the time for all was over
        in_doubt,   // the connection broke on the way: the audit says whether it was done
    };
    target of;
    outcome is{};
    std::string said;
};

/// Each in a transaction of its own, with its row in skald.audit. What has not begun after `within` is not tried: a
/// browser, and a proxy, wait for all of them.
std::vector<result> carry_out(databases const& all, order const& what, std::vector<target> const& targets,
                              std::chrono::milliseconds within = std::chrono::seconds{20});

}  // namespace skald::console
