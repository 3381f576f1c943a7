// One of the three services as a child process that can be started, killed and started again.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace order_demo {

struct service_settings
{
    std::string name;  // "orders"
    std::filesystem::path program;
    std::vector<std::string> arguments;
    std::vector<std::string> environment;  // "NAME=value", added to what this process has
    std::filesystem::path log;             // both outputs are appended to it
};

/// Threads: start() belongs to the thread that lives longest; the child is killed when that thread ends, however it
/// ends, so that nothing is left running.
class service_process
{
public:
    explicit service_process(service_settings settings);
    /// Kills what still runs.
    ~service_process();
    service_process(service_process const&) = delete;
    service_process& operator=(service_process const&) = delete;

    std::string const& name() const { return settings_.name; }
    pid_t pid() const { return pid_; }
    bool running() const { return pid_ > 0; }

    void start();

    /// SIGKILL, and waits for the end.
    void kill();

    /// SIGTERM; the end is for ended().
    void ask_to_end() const;

    /// How it ended, in words ("exit code 0", "signal 11"), once it has. Tells it once.
    std::optional<std::string> ended();

    std::string log_tail() const;

private:
    service_settings settings_;
    pid_t pid_{-1};
};

/// A port of 127.0.0.1 on which nobody listens now, below those that the system gives to outgoing connections: while
/// the service is dead its port must not be taken by a client that happens to connect.
std::uint16_t find_free_port();

}  // namespace order_demo
