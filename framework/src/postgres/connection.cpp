#include "postgres/connection.hpp"

#include "core/failpoint.hpp"
#include "postgres/conninfo.hpp"
#include "postgres/last_words.hpp"
#include "postgres/literal.hpp"
#include "postgres/migrate.hpp"
#include "postgres/pooler.hpp"
#include "skald_queries.hpp"
#include "skald_session_queries.hpp"

#include <skald/errors.hpp>

#include <pqxx/except>

#include <fmt/format.h>

#include <system_error>

namespace skald::postgres {
namespace {

// libpqxx 6 reconnects by itself in the middle of things, without what was set and locked on the old connection;
// libpqxx 7 has no such mode and no such function.
template <class Connection>
void forbid_reconnecting(Connection& c)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    if constexpr (requires { c.inhibit_reactivation(true); }) c.inhibit_reactivation(true);
#pragma GCC diagnostic pop
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // errorhandler: the one form that libpqxx 6 and 7 share

// Keeps the first warning instead of printing it.
class warning_keeper final : public pqxx::errorhandler
{
public:
    warning_keeper(pqxx::connection& c, std::shared_ptr<std::string> kept) : errorhandler{c}, kept_{std::move(kept)} {}

    bool operator()(char const* text) noexcept override
    try {
        if (kept_->empty()) *kept_ = text;
        while (kept_->ends_with('\n')) kept_->pop_back();
        return false;
    }
    catch (...) {
        return false;
    }

private:
    std::shared_ptr<std::string> kept_;
};

#pragma GCC diagnostic pop

std::string prepare(std::string_view name, std::string_view query)
{
    return fmt::format("PREPARE {} AS {};\n", name, query);
}

std::string set_session(connection_options const& o)
{
    return prepare("session_settings", session_queries::session_settings::statement_text) + settings_text(o);
}

// A function, a table or a column: class 42 but for the permission. Of the usual ones libpqxx keeps the class alone.
bool names_what_is_missing(pqxx::sql_error const& error)
{
    if (dynamic_cast<pqxx::insufficient_privilege const*>(&error) != nullptr) return false;
    return dynamic_cast<pqxx::syntax_error const*>(&error) != nullptr || error.sqlstate().starts_with("42");
}

std::string prepare_everything()
{
    std::string text;
    for (auto const& [name, query] : queries::all) text += prepare(name, query);
    return text;
}

}  // namespace

std::string settings_text(connection_options const& o, bool writes, std::string const& role)
{
    return execute(session_queries::session_settings{.lock_timeout = o.lock_timeout,
                                                     .statement_timeout = o.statement_timeout,
                                                     .idle_timeout = o.idle_in_transaction_timeout,
                                                     .skips_disk_wait = !o.waits_for_disk,
                                                     .writes_outside = writes,
                                                     .role = null_if_empty(role)});
}

connection::connection(connection_options const& options)
    : server_{options.server}, node_{server_->node}, connection_{with_defaults(options.url, options.application_name)},
      answer_within_{options.statement_timeout + options.commit_timeout}, listens_{std::make_unique<warning_keeper>(
                                                                              connection_, warning_)}
{
    forbid_reconnecting(connection_);
    hold_socket();
    examine_pooler(options);
    run(set_session(options));
    if (!run(std::string{session_queries::schema_is_there})[0][0].as<bool>()) refuse_without_schema(connection_);
    try {
        examine_database(options);
    }
    catch (pqxx::sql_error const& error) {
        if (names_what_is_missing(error)) refuse_older_schema();
        throw;
    }
}

// Without descriptors there is no connection for now, as when the server has no room.
void connection::hold_socket()
try {
    interrupter_.hold(connection_.sock());
}
catch (std::system_error const& error) {
    throw pqxx::broken_connection{error.what()};
}

// A copy that was restored, or promoted, under the same address: what this process has seen committed may be missing in
// it, and would be done a second time. In one round trip with the statements that every connection needs.
void connection::examine_database(connection_options const& options)
{
    auto const seen = run((options.prepares_statements ? prepare_everything() : std::string{}) +
                          std::string{session_queries::database_identity});
    service_table_ = seen[0]["service_table"].as<std::string>("");
    if (!options.database->is(seen[0]["identity"].as<std::string>("")))
        throw pqxx::broken_connection{
            "this is another database than the one that this process has worked in: restored from a backup, or a copy. "
            "Nothing is done in it. See docs/repair.md, \"A database from a backup\"; if it is to be used, adopt it "
            "and "
            "restart this process"};
}

// Of a schema that is not migrated yet, PostgreSQL says what it lacks, and not what to do.
void connection::refuse_older_schema()
try {
    sockets::watched const bounded{watchdog_, sockets::watchdog::clock::now() + answer_within_};
    require_current_schema(connection_);
}
catch (pqxx::sql_error const&) {
    // What was met first says more.
}

// Once per process: before the first of its settings could land in another client's session.
void connection::examine_pooler(connection_options const& options)
{
    if (server_->pooler_examined) return;
    sockets::watched const bounded{watchdog_, sockets::watchdog::clock::now() + answer_within_};
    refuse_transaction_pooler(connection_, with_defaults(options.url, options.application_name));
    server_->pooler_examined = true;
}

pqxx::result connection::run(std::string const& text)
{
    SKALD_FAILPOINT_SOCKET(postgres, connection_.sock());
    ++round_trips_;
    warning_->clear();
    watchdog_.watch(sockets::watchdog::clock::now() + answer_within_);
    try {
        auto result = pqxx::nontransaction{connection_}.exec(text);
        watchdog_.done();
        return result;
    }
    catch (pqxx::broken_connection const& error) {
        if (!watchdog_.done()) throw unanswered();
        throw pqxx::broken_connection{last_words(connection_, error.what())};
    }
    catch (...) {
        if (watchdog_.done()) throw;
        throw unanswered();
    }
}

no_answer connection::unanswered() const
{
    return no_answer{
        fmt::format("the database gave no answer within {} ms; the connection was cut", answer_within_.count())};
}

std::string connection::transaction()
{
    return run(std::string{session_queries::current_transaction})[0][0].as<std::string>("");
}

void connection::ping()
{
    run(std::string{session_queries::ping});
}

void connection::ping(std::chrono::milliseconds within)
{
    auto const usual = std::exchange(answer_within_, within);
    try {
        ping();
    }
    catch (...) {
        answer_within_ = usual;
        throw;
    }
    answer_within_ = usual;
}

std::string const& connection::prepared(std::string_view text)
{
    auto const [it, is_new] = names_.try_emplace(std::string{text}, "user_" + std::to_string(names_.size() + 1));
    if (!is_new) return it->second;
    try {
        connection_.prepare(it->second, it->first);
    }
    catch (...) {
        // libpqxx 7 prepares at once. What can't be prepared now, say for a missing table, may be the next time.
        names_.erase(it);
        throw;
    }
    return it->second;
}

}  // namespace skald::postgres
