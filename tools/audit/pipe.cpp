#include "audit/pipe.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace skald::audit {
namespace {

constexpr int look_every_ms = 500;
constexpr std::size_t part_bytes = std::size_t{64} * 1024;

// Where a part of a pipeline fails, its last part may still end with 0, and so may the command after a `;`. Not every
// sh knows the option for pipelines.
constexpr auto fails_as_a_whole = R"(set -e
if (set -o pipefail) 2>/dev/null; then set -o pipefail
else echo "skald: without bash, a part of a pipeline that fails is seen only if it is the last one" >&2
fi
)";

std::string shell()
{
    return ::access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
}

void check(int error, char const* what)
{
    if (error != 0) throw std::system_error{error, std::generic_category(), what};
}

std::vector<std::string> environment_with(std::vector<std::pair<std::string, std::string>> const& variables)
{
    std::vector<std::string> all;
    for (char** one = environ; *one != nullptr; ++one) {
        std::string_view const text{*one};
        bool replaced = false;
        for (auto const& [name, value] : variables) replaced = replaced || text.starts_with(name + "=");
        if (!replaced) all.emplace_back(text);
    }
    for (auto const& [name, value] : variables) all.push_back(name + "=" + value);
    return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts)
{
    std::vector<char*> all;
    all.reserve(texts.size() + 1);
    for (auto& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
}

}  // namespace

pipe_from::pipe_from(std::string const& command, std::vector<std::pair<std::string, std::string>> const& variables)
{
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) check(errno, "no pipe can be made");
    auto words = std::vector<std::string>{shell(), "-c", fails_as_a_whole + command};
    auto environment = environment_with(variables);

    ::posix_spawn_file_actions_t actions{};
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    auto const error = ::posix_spawn(&child_, words[0].c_str(), &actions, nullptr, pointers(words).data(),
                                     pointers(environment).data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    from_ = ends[0];
    if (error != 0) {
        ::close(from_);
        check(error, "no shell can be started");
    }
}

pipe_from::~pipe_from()
{
    ::close(from_);
    if (child_ == 0) return;
    ::kill(child_, SIGTERM);
    ::waitpid(child_, nullptr, 0);
}

// Whoever else has the output keeps it open: a part of it that would be waited for without an end.
void pipe_from::wait_for_bytes()
{
    ::pollfd output{from_, POLLIN, 0};
    while (::poll(&output, 1, look_every_ms) == 0) {
        int status{};
        if (child_ == 0 || ::waitpid(child_, &status, WNOHANG) != child_) continue;
        child_ = 0;
        ended_ = status;
        if (::poll(&output, 1, look_every_ms) == 0)
            throw std::runtime_error{
                "the command has ended, and what it left in the background still has its output: let "
                "the command wait for it"};
    }
}

std::string pipe_from::read()
{
    std::string part(part_bytes, '\0');
    for (;;) {
        wait_for_bytes();
        auto const count = ::read(from_, part.data(), part.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) check(errno, "the command's output can't be read");
        part.resize(static_cast<std::size_t>(count));
        return part;
    }
}

std::string pipe_from::wait()
{
    int status = ended_.value_or(0);
    while (!ended_ && ::waitpid(child_, &status, 0) < 0)
        if (errno != EINTR) check(errno, "the command's end can't be seen");
    child_ = 0;
    if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
    return WEXITSTATUS(status) == 0 ? "" : "exited with " + std::to_string(WEXITSTATUS(status));
}

}  // namespace skald::audit
