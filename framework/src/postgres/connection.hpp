// A connection with everything that Skald relies on: session settings, and the framework's statements prepared by name.
#pragma once

#include <pqxx/connection>
#include <pqxx/nontransaction>
#include <pqxx/result>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace skald::postgres {

struct connection_options
{
    std::string url;
    std::string application_name{"skald"};
    std::chrono::milliseconds lock_timeout{5'000};
    std::chrono::milliseconds statement_timeout{30'000};
    std::chrono::milliseconds idle_in_transaction_timeout{30'000};
};

/// Threads: one. Never reconnects by itself: one that broke is thrown away, since what was set on it is gone too.
class connection
{
public:
    /// Throws what pqxx throws; configuration_error where the database has not been migrated.
    explicit connection(connection_options const& options);

    /// Runs text of ours: one or several statements. The result is that of the last.
    pqxx::result run(std::string const& text);

    /// The name under which a user's statement is prepared here; prepares it the first time.
    std::string const& prepared(std::string_view text);

    pqxx::connection& raw() { return connection_; }
    bool is_open() const { return connection_.is_open(); }

private:
    pqxx::connection connection_;
    std::unordered_map<std::string, std::string> names_;  // by text
};

}  // namespace skald::postgres
