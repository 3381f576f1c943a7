// What a step leaves in its session: settings, locks, tables, which end with the connection and not the transaction.
//
// None of it reaches the next step, inspected or not (postgres_store.cpp). An inspection costs more than the rest of a
// transaction, so it is done from time to time, to give what is wrong a name.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::postgres {

/// A session as `inspect_session` sees it: the value of each thing, by kind and name.
using session_things = std::map<std::pair<std::string, std::string>, std::string>;

session_things read_session(std::string_view text);

/// The role that the session belongs to.
std::string role_of(session_things const& session);

struct leftover
{
    std::string kind;  // "setting", "advisory lock"
    std::string name;

    bool operator==(leftover const&) const = default;
};

/// What is there now and was not before, or has another value; and settings that are gone.
std::vector<leftover> left_behind(session_things const& before, session_things const& now);

/// "setting search_path (instead: SET LOCAL); advisory lock 42 (instead: pg_advisory_xact_lock)"
std::string in_words(std::vector<leftover> const& all);

/// Which transactions are inspected, and what has been reported. Threads: any. One per process.
class leftover_watch
{
public:
    /// The first few transactions of each step, and one in many later.
    bool wants_look(std::string const& step);

    /// True once for each step and set of kinds.
    bool is_news(std::string const& step, std::vector<leftover> const& what);

private:
    std::mutex mutex_;
    std::map<std::string, std::uint64_t> transactions_;  // by step
    std::set<std::string> reported_;
};

}  // namespace skald::postgres
