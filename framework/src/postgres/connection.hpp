// A connection with everything that Skald relies on: session settings, and the framework's statements prepared by name.
#pragma once

#include "metrics/body_metrics.hpp"
#include "ports/body_store.hpp"
#include "postgres/leftovers.hpp"
#include "sockets/watchdog.hpp"

#include <pqxx/connection>
#include <pqxx/errorhandler>
#include <pqxx/except>
#include <pqxx/nontransaction>
#include <pqxx/result>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace skald::postgres {

/// The database that a process works in: the one that it was started on, or the one that its first connection found.
/// Threads: any.
class database_identity
{
public:
    /// Nothing has been done yet, and the owner of this one has been checked.
    void starts_as(std::string owned)
    {
        std::lock_guard const lock{mutex_};
        known_ = std::move(owned);
    }

    /// False if it is another one. `seen` is empty while no service owns the database.
    bool is(std::string const& seen)
    {
        std::lock_guard const lock{mutex_};
        if (known_.empty()) known_ = seen;
        is_another_ = known_ != seen;
        return !is_another_;
    }

    /// Whether the connection that was made last found another one.
    bool is_another() const
    {
        std::lock_guard const lock{mutex_};
        return is_another_;
    }

private:
    std::mutex mutable mutex_;
    std::string known_;
    bool is_another_{};
};

/// What the connections of one process have learned about their server, and share.
///
/// Threads: any.
struct server_state
{
    /// Incremented when a node turns out to be read-only: every older connection is dropped at its next use.
    std::atomic<std::uint64_t> node{1};

    /// Whether it was checked that no pooler before the server hands out its sessions by transaction.
    std::atomic<bool> pooler_examined{false};

    /// Which steps leave something in their sessions.
    leftover_watch leftovers;
};

struct connection_options
{
    std::string url;
    std::string application_name{"skald"};
    std::chrono::milliseconds lock_timeout{5'000};
    std::chrono::milliseconds statement_timeout{30'000};
    std::chrono::milliseconds idle_in_transaction_timeout{30'000};
    // How much longer than statement_timeout an answer may take before the connection is cut: no setting of the server
    // bounds COMMIT, or a server that hangs.
    std::chrono::milliseconds commit_timeout{10'000};
    // False: COMMIT returns before the data is on disk. Only where a loss does no harm, as in the test kit's databases.
    bool waits_for_disk{true};
    // A store inspects the session after each transaction for what its step has left there, and reports it each time:
    // for the test kit. Otherwise it inspects from time to time, and reports once.
    bool inspects_every_session{};
    // False: the framework's statements are not prepared, which takes locks on all of its tables at once. For a sender
    // in its receiver's database, which may be migrating, or have one of them locked.
    bool prepares_statements{true};
    // Copied with the options: what one connection of a process learns about its server, the others know.
    std::shared_ptr<server_state> server{std::make_shared<server_state>()};
    // The same. Apart, for callers that work with several databases of one server.
    std::shared_ptr<database_identity> database{std::make_shared<database_identity>()};
    // Where large bodies are kept; null: in this database. Shared by all of a process.
    std::shared_ptr<ports::body_store> bodies{};
    // Where they are counted. Shared likewise.
    std::shared_ptr<metrics::body_metrics> body_counts{std::make_shared<metrics::body_metrics>()};
};

/// The settings that all of Skald's statements rely on, for a session that anyone may have changed. `writes`: outside
/// its own transactions too. `role`: the session's own role, if that may have been changed as well.
std::string settings_text(connection_options const& options, bool writes = true, std::string const& role = {});

/// It said nothing for as long as it may, and the connection was cut: what was asked may have been done.
class no_answer : public pqxx::broken_connection
{
public:
    using broken_connection::broken_connection;
};

/// Threads: one. Never reconnects by itself: a broken connection is thrown away, since what was set on it is gone too.
class connection
{
public:
    /// Throws what pqxx throws; pqxx::broken_connection also if it is another database than this process has worked in
    /// before; configuration_error if the database has not been migrated, or is reached through a pooler that hands out
    /// its sessions by transaction.
    explicit connection(connection_options const& options);

    /// The table skald.service of the database that this connection found: another one, if that was replaced since.
    std::string const& service_table() const { return service_table_; }

    /// Runs text of ours: one or several statements. The result is that of the last. After statement_timeout and
    /// commit_timeout, whatever the server does, the connection is cut and no_answer thrown.
    pqxx::result run(std::string const& text);

    /// How long run() waits from now on, instead.
    void answer_within(std::chrono::milliseconds time) { answer_within_ = time; }

    /// The number of the open transaction; empty if it has written nothing, or none is open. Throws as run() does, also
    /// if the transaction was aborted.
    std::string transaction();

    /// Throws if the database does not answer; within that time, if one is given, and not as run() does.
    void ping();
    void ping(std::chrono::milliseconds within);

    /// How often run() was called: counted where round trips are promised.
    std::uint64_t round_trips() const { return round_trips_; }

    /// What the server warned of during the last run(); empty if it did not. After a COMMIT, a warning means that its
    /// wait for the standbys was cut short: it says "committed", and may be gone after a failover (reliability F3).
    std::string const& warning() const { return *warning_; }

    /// The name under which a user's statement is prepared here; prepares it on first use.
    std::string const& prepared(std::string_view text);

    pqxx::connection& raw() { return connection_; }
    int socket() const { return connection_.sock(); }
    bool is_open() const { return connection_.is_open(); }

    /// Open, and not to a node that has since turned out to be read-only.
    bool is_usable() const { return is_open() && node_ == server_->node; }

private:
    void hold_socket();
    void examine_pooler(connection_options const& options);
    void examine_database(connection_options const& options);
    void refuse_older_schema();
    no_answer unanswered() const;

    std::shared_ptr<server_state> server_;
    std::uint64_t node_;  // server_state::node, read before connecting
    pqxx::connection connection_;
    std::unordered_map<std::string, std::string> names_;  // by text
    std::chrono::milliseconds answer_within_;
    std::uint64_t round_trips_{};
    std::string service_table_;
    std::shared_ptr<std::string> warning_{std::make_shared<std::string>()};
    std::unique_ptr<pqxx::errorhandler> listens_;
    sockets::socket_interrupter interrupter_;
    sockets::watchdog watchdog_{interrupter_};
};

}  // namespace skald::postgres
