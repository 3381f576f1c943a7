#include "operator.hpp"

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <pqxx/pqxx>

namespace order_storm {
namespace {

constexpr int start_tries = 5;

std::string output_of(std::string const& command)
{
    std::string output;
    std::FILE* const pipe = ::popen((command + " 2>&1 </dev/null").c_str(), "r");
    if (pipe == nullptr) throw std::runtime_error{"can't run " + command};
    char buffer[4096];
    for (std::size_t size = 0; (size = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, size);
    if (::pclose(pipe) != 0) throw std::runtime_error{command + " failed: " + output};
    return output;
}

}  // namespace

server_operator::server_operator(std::filesystem::path script, std::filesystem::path folder)
    : script_{std::move(script)}, folder_{std::move(folder)}
{}

std::string server_operator::run(std::string const& verb, std::string const& words) const
{
    return output_of(fmt::format("'{}' {} '{}' {}", script_.string(), verb, folder_.string(), words));
}

std::string server_operator::rabbitmq_version() const
{
    auto text = rabbitmqctl("eval 'rabbit_misc:version().'");
    std::erase_if(text, [](char c) { return (c < '0' || c > '9') && c != '.'; });
    return text;
}

void server_operator::start(std::string const& server) const
{
    for (int tries = 1;; ++tries) {
        try {
            run("start", server);
            return;
        }
        catch (std::runtime_error const&) {
            if (tries == start_tries) throw;
            // What was killed just now may still hold its port, its shared memory or its node's name for a moment.
            std::this_thread::sleep_for(std::chrono::seconds{1});
        }
    }
}

void server_operator::flush_queue_directory() const
{
    rabbitmqctl("eval 'mnesia:sync_log().'");
}

void terminate_sessions(std::string const& database_url, int one_in)
try {
    pqxx::connection connection{database_url};
    pqxx::nontransaction{connection}.exec(
        fmt::format("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                    "AND pid <> pg_backend_pid() AND random() < 1.0 / {}",
                    one_in));
}
catch (pqxx::failure const&) {
    // The server is down: no session to end.
}

std::vector<std::string> open_transactions(std::string const& database_url)
{
    std::vector<std::string> lines;
    pqxx::connection connection{database_url};
    pqxx::nontransaction tx{connection};
    for (auto const& row : tx.exec("SELECT format('%s: %s, %s', pid, application_name, query) FROM pg_stat_activity "
                                   "WHERE state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - "
                                   "interval '2 s'"))
        lines.emplace_back(row[0].c_str());
    return lines;
}

}  // namespace order_storm
