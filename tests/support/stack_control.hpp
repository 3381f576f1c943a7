// The servers that the tests run against: where they are, and an operator's means to control them.
#pragma once

#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include "support/required.hpp"

namespace skald::test {

inline std::string run_command(std::string const& command)
{
    std::string output;
    std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
    if (pipe == nullptr) throw std::runtime_error{"can't run " + command};
    char buffer[4096];
    for (std::size_t size = 0; (size = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, size);
    if (::pclose(pipe) != 0) throw std::runtime_error{command + " failed: " + output};
    return output;
}

inline std::string stack(std::string const& verb, std::string const& words)
{
    return run_command(std::string{SKALD_STACK_SCRIPT} + ' ' + verb + " '" + required("SKALD_TEST_STACK") + "' " +
                       words);
}

inline void start_server(std::string const& name)
{
    stack("start", name);
}
inline void stop_server(std::string const& name)
{
    stack("stop", name);
}
inline std::string rabbitmqctl(std::string const& words)
{
    return stack("ctl", words);
}
/// A RabbitMQ that is killed soon after a queue was declared can lose that queue, because its on-disk directory of
/// queues does not have it yet: what a test then sees is the broker's doing (docs/operations.md, "Broker"). So the
/// directory is written first.
inline void kill_server(std::string const& name)
{
    if (name == "rabbitmq") rabbitmqctl("eval 'mnesia:sync_log().'");
    stack("kill", name);
}

/// Stops a server, and starts it again whatever happens in between.
class server_away
{
public:
    explicit server_away(std::string name) : name_{std::move(name)} { stop_server(name_); }
    server_away(server_away const&) = delete;
    server_away& operator=(server_away const&) = delete;
    ~server_away()
    {
        try {
            come_back();
        }
        catch (std::exception const& error) {
            std::fprintf(stderr, "%s did not come back: %s\n", name_.c_str(), error.what());
        }
    }
    void come_back()
    {
        if (!std::exchange(is_away_, false)) return;
        start_server(name_);
    }

private:
    std::string name_;
    bool is_away_{true};
};

}  // namespace skald::test
