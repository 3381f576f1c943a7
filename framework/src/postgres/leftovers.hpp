// What a step leaves in its session: settings, locks, tables that end with a connection and not with a transaction.
//
// None of it reaches the next step, whether somebody looked or not (postgres_store.cpp). To look costs more than the
// rest of a transaction, so it is done now and then, for a name to be given to what is wrong.
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

/// A session as `inspect_session` sees it: by kind and name, what each thing is set to.
using session_things = std::map<std::pair<std::string, std::string>, std::string>;

session_things read_session(std::string_view text);

/// Whose session it is.
std::string role_of(session_things const& session);

struct leftover
{
    std::string kind;  // "setting", "advisory lock"
    std::string name;

    bool operator==(leftover const&) const = default;
};

/// What is there now, or is another, and was not so before; and settings that are gone.
std::vector<leftover> left_behind(session_things const& before, session_things const& now);

/// "setting search_path (instead: SET LOCAL); advisory lock 42 (instead: pg_advisory_xact_lock)"
std::string in_words(std::vector<leftover> const& all);

/// Which transactions are looked at, and what has been told. Threads: any. One for a process.
class leftover_watch
{
public:
    /// Of each step the first few transactions, and one in many later.
    bool wants_look(std::string const& step);

    /// True once for each step and set of kinds.
    bool is_news(std::string const& step, std::vector<leftover> const& what);

private:
    std::mutex mutex_;
    std::map<std::string, std::uint64_t> transactions_;  // by step
    std::set<std::string> told_;
};

}  // namespace skald::postgres
