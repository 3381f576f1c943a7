// Commits that wait for the standbys and carry nothing: for what was committed before, by whomever.
#pragma once

#include "postgres/connection.hpp"

#include <string>

namespace skald::postgres {

/// The waits of one user of connections, and what is left of one that was cut: the server looks at no socket while it
/// waits, so a session whose client has gone stays until the standbys are back. While they are away, each attempt would
/// leave one behind, until the server has no connection left. Threads: one at a time.
class standby_wait
{
public:
    /// Commits, after all that was committed before; with a `text` that does the same, or with one of its own. Where
    /// standbys are waited for, they have all of it then, unless the connection has a warning() now. Throws what
    /// connection::run() throws.
    void run(connection& c);
    void run(connection& c, std::string const& text);

    /// On a new connection of the same user and name, outside a transaction: ends the wait that was cut on the one
    /// before. What the server refuses, it leaves.
    void end_left_behind(connection& c);

private:
    int backend_{};  // the server's process of the connection; 0: it was not asked
    bool was_cut_{};
};

}  // namespace skald::postgres
