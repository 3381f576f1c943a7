// A program as a child process that can be started, killed and started again: its environment, its log, how it ended.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace skald::rig {

using environment = std::map<std::string, std::string>;

/// How a process ended: by exit code or by signal.
struct ending
{
    std::optional<int> code;
    std::optional<int> signal;
    bool core_dumped{false};
};

/// "exit code 0", "signal 11"
std::string in_words(ending const& how);

struct process_settings
{
    std::string program;
    std::vector<std::string> arguments{};
    environment variables{};
    bool inherits_environment{};  // `variables` are added to this process's own; otherwise they are all that there is
    std::filesystem::path log{};  // both outputs are appended to it; none: a temporary file, deleted with this
    std::string name{};           // for messages; none: the program's
};

inline constexpr std::chrono::seconds wait_max{30};

/// Threads: start() belongs to the thread that lives longest: the child is killed when that thread ends, however it
/// ends, so that nothing is left running. Other threads may query logs and ports. Throws std::runtime_error.
class process
{
public:
    explicit process(process_settings settings);
    /// Kills what still runs.
    ~process();
    process(process const&) = delete;
    process& operator=(process const&) = delete;

    void set_arguments(std::vector<std::string> arguments) { settings_.arguments = std::move(arguments); }
    void set_variable(std::string const& name, std::string value) { settings_.variables[name] = std::move(value); }

    void start();
    bool is_running();
    /// Sends it, if the process runs; its end is for wait() or ended().
    void kill(int signal);
    /// SIGKILL, and waits for the end, which ended() does not report.
    void kill();
    /// Waits for its end; if it takes longer than `longest`, kills it and reports SIGKILL.
    ending wait(std::chrono::milliseconds longest = wait_max);
    ending run();
    ending terminate(std::chrono::milliseconds longest = wait_max);
    void kill_and_restart();
    /// How it ended, once it has. Reported once.
    std::optional<ending> ended();

    std::string const& name() const { return settings_.name; }
    pid_t pid() const { return pid_; }

    /// What it has printed since it was last started.
    std::string log() const;
    bool has_logged(std::string_view text) const { return log().find(text) != std::string::npos; }
    /// The end of all that it has ever printed.
    std::string log_tail() const;

    /// The port of "http=127.0.0.1:PORT" in its log, 0 if there is none yet.
    std::uint16_t http_port() const { return port_after(" http=127.0.0.1:"); }
    std::uint16_t health_port() const { return port_after(" health=127.0.0.1:"); }

    std::size_t open_files() const;
    long resident_kib() const;

private:
    std::uint16_t port_after(std::string_view mark) const;
    void note(int status);

    process_settings settings_;
    bool log_is_temporary_;
    std::atomic<std::size_t> log_start_{0};
    pid_t pid_{-1};
    std::optional<ending> ended_;
    bool is_told_{};
};

/// A port of 127.0.0.1 on which no process listens now, below those that the system gives to outgoing connections:
/// while the service is dead its port must not be taken by a client that happens to connect.
std::uint16_t find_free_port();

}  // namespace skald::rig
