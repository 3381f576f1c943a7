// The output of a command, and how it ended.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace skald::audit {

/// Threads: one. Throws std::system_error.
class pipe_from
{
public:
    /// `variables` are added to this process's own.
    pipe_from(std::string const& command, std::vector<std::pair<std::string, std::string>> const& variables);
    /// Ends it, unless it has ended.
    ~pipe_from();
    pipe_from(pipe_from const&) = delete;
    pipe_from& operator=(pipe_from const&) = delete;

    /// Some bytes; empty: there are no more. Throws std::runtime_error if the command has ended and its output has not.
    std::string read();

    /// Empty: it ended with 0. Otherwise "exited with 3", "was ended by signal 9".
    std::string wait();

private:
    void wait_for_bytes();

    ::pid_t child_{};             // 0: it has ended
    std::optional<int> ended_{};  // how, where that was seen while its output was read
    int from_{-1};
};

}  // namespace skald::audit
