// The participant's processes, and the relay beside them.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

namespace skald::conform {

/// A shell command in a process group of its own. Threads: the one that made it.
class process
{
public:
    /// Its output is appended to `log`; empty: it goes to stderr. It has no input.
    process(std::string command, std::string log);
    ~process() { kill(); }
    process(process const&) = delete;
    process& operator=(process const&) = delete;

    void start();  // throws std::system_error
    bool is_running();

    /// SIGKILL for the whole group.
    void kill();

    /// SIGTERM for the whole group.
    void terminate();

    /// Waits until the whole group has ended. It is killed at `until`, and that returns false.
    bool await_end(std::chrono::steady_clock::time_point until);

private:
    bool has_gone();

    std::string command_, log_;
    ::pid_t child_{};  // 0: it does not run
};

}  // namespace skald::conform
