// An operator's means to control the servers: whole ones through their script, sessions of PostgreSQL, rabbitmqctl.
//
// Nothing here expects the server to be up: in a storm it often is not, and then nothing happens.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace order_storm {

/// Threads: any.
class server_operator
{
public:
    /// A script that knows `kill`, `stop`, `start` and `ctl`, and the folder of the servers that it started.
    server_operator(std::filesystem::path script, std::filesystem::path folder);

    void kill(std::string const& server) const { run("kill", server); }
    void stop(std::string const& server) const { run("stop", server); }

    /// Until it runs again; tries more than once.
    void start(std::string const& server) const;

    std::string rabbitmqctl(std::string const& words) const { return run("ctl", words); }

    std::string rabbitmq_version() const;

    /// Asks RabbitMQ to write its directory of queues to the disk. By itself it does so a while after a queue was made,
    /// and one that is killed before that loses the queue with everything in it: that is up to RabbitMQ, and not what
    /// is tested here.
    void flush_queue_directory() const;

private:
    /// `SCRIPT VERB FOLDER WORDS`: its output. Throws std::runtime_error if it fails.
    std::string run(std::string const& verb, std::string const& words) const;

    std::filesystem::path script_;
    std::filesystem::path folder_;
};

/// Ends about one in `one_in` sessions of that database, as an operator or a failing network would.
void terminate_sessions(std::string const& database_url, int one_in);

/// The sessions that hold a transaction open, of all databases there; one that is just between two statements does not
/// count. Throws pqxx's exceptions.
std::vector<std::string> open_transactions(std::string const& database_url);

}  // namespace order_storm
