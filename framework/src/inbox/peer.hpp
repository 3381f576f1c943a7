// One service's inbox, as a sender sees it: a connection to that service's database.
#pragma once

#include "core/backoff.hpp"
#include "ports/transport.hpp"
#include "postgres/connection.hpp"
#include "postgres/standby_wait.hpp"
#include "transports/reconnect_schedule.hpp"

#include <pqxx/except>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace skald::inbox {

/// Which right a sender lacks in a peer's database, and who gives it: one line.
std::string lacking_right(pqxx::insufficient_privilege const& error);

/// Threads: one. Connects on another, which its destructor waits for: no longer than a host may say nothing.
class peer
{
public:
    using clock = std::chrono::steady_clock;

    peer(postgres::connection_options options, core::backoff reconnect, std::uint64_t seed)
        : options_{std::move(options)}, schedule_{reconnect, seed}
    {}

    /// Connected; begins to connect if it is time to. Waits for the end of an attempt only if none has failed since it
    /// was connected last. Never throws because of the server.
    bool available();

    /// So that those of several peers wait together.
    void begin_to_connect();

    /// The same without asking the server: it was connected when that was last known.
    bool is_connected() const { return connection_ != nullptr; }

    /// Another database was found in its place when it was reached last: somebody has to put that right.
    bool is_another() const { return !is_connected() && known_.is_another(); }

    /// Why not; empty if it is.
    std::string const& last_error() const { return last_error_; }

    /// Writes them into the inbox, and returns when they are durable there; a consumer may have begun with them before
    /// that. Returns the queues that do not exist there: their messages were not
    /// taken. Throws pqxx::broken_connection: whether they were is not known, and the connection is gone;
    /// pqxx::sql_error: they were not.
    std::set<std::string, std::less<>> deliver(std::span<core::message const* const> messages,
                                               std::chrono::milliseconds deadline);

private:
    void take_what_comes();
    std::unique_ptr<postgres::connection> connect();
    void lose(std::string const& why);
    bool has_word_of_its_end() const;

    postgres::connection_options options_;
    postgres::database_identity known_;  // by its id alone, which stays where it is restored or moved
    transports::reconnect_schedule schedule_;
    std::unique_ptr<postgres::connection> connection_;
    postgres::standby_wait standby_wait_;  // of the flush; `coming_` has it while there is no connection
    std::string last_error_{"not connected yet"};
    bool has_failed_{};
    std::future<std::unique_ptr<postgres::connection>> coming_;  // the last: what it uses outlives it
};

}  // namespace skald::inbox
