#include "conform/processes.hpp"

#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace skald::conform {
namespace {

/// Between fork and exec: only what is safe while the parent has other threads.
[[noreturn]] void become(char const* command, int output, ::pid_t parent)
{
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    if (int const nothing = ::open("/dev/null", O_RDONLY); nothing >= 0) ::dup2(nothing, STDIN_FILENO);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::execl("/bin/sh", "sh", "-c", command, nullptr);
    ::_exit(127);
}

}  // namespace

process::process(std::string command, std::string log) : command_{std::move(command)}, log_{std::move(log)} {}

void process::start()
{
    int const output = log_.empty() ? ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)
                                    : ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (output < 0) throw std::system_error{errno, std::generic_category(), log_};
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a shell has left is waited for here
    auto const parent = ::getpid();
    auto const child = ::fork();
    if (child == 0) become(command_.c_str(), output, parent);
    auto const error = errno;
    ::close(output);
    if (child < 0) throw std::system_error{error, std::generic_category(), "no process can be started"};
    ::setpgid(child, child);  // both do: whoever comes first
    child_ = child;
}

bool process::is_running()
{
    if (child_ != 0 && ::waitpid(child_, nullptr, WNOHANG) == child_) kill();  // what it has left
    return child_ != 0;
}

void process::kill()
{
    if (child_ == 0) return;
    ::kill(-child_, SIGKILL);
    while (::waitpid(-child_, nullptr, 0) > 0 || errno == EINTR) continue;
    child_ = 0;
}

void process::terminate()
{
    if (child_ != 0) ::kill(-child_, SIGTERM);
}

bool process::has_gone()
{
    ::pid_t ended = 0;
    while (child_ != 0 && (ended = ::waitpid(-child_, nullptr, WNOHANG)) > 0) continue;
    if (ended < 0 && errno == ECHILD) child_ = 0;
    return child_ == 0;
}

bool process::await_end(std::chrono::steady_clock::time_point until)
{
    while (!has_gone()) {
        if (std::chrono::steady_clock::now() > until) {
            kill();
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    return true;
}

}  // namespace skald::conform
