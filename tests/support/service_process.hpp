// A program under test as a process of its own: its environment is only what the test gives it, its log is kept.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <skald/testing/wait_until.hpp>

namespace skald::test {

using testing::wait_until;

/// For what another process does: much longer than it takes on a busy machine.
inline constexpr std::chrono::seconds wait_max{30};

using environment = std::map<std::string, std::string>;

/// How a process ended: its exit code, or the signal that killed it.
struct ending
{
    std::optional<int> code;
    std::optional<int> signal;
    bool core_dumped{false};
};

class service_process
{
public:
    service_process(std::string program, std::vector<std::string> arguments, environment variables)
        : program_{std::move(program)}, arguments_{std::move(arguments)}, variables_{std::move(variables)}
    {
        char name[] = "/tmp/skald-service-log-XXXXXX";
        int const fd = ::mkstemp(name);
        if (fd < 0) throw std::runtime_error{"no file for a log"};
        ::close(fd);
        log_path_ = name;
    }
    service_process(service_process const&) = delete;
    service_process& operator=(service_process const&) = delete;
    ~service_process()
    {
        if (is_running()) kill(SIGKILL);
        wait();
        ::unlink(log_path_.c_str());
    }

    void set_arguments(std::vector<std::string> arguments) { arguments_ = std::move(arguments); }
    void set_variable(std::string const& name, std::string value) { variables_[name] = std::move(value); }

    void start()
    {
        if (is_running()) throw std::logic_error{program_ + " runs already"};
        log_start_ = log_size();
        ended_.reset();
        std::vector<std::string> texts;
        for (auto const& [name, value] : variables_) texts.push_back(name + "=" + value);
        // Where a sanitizer that this is built with, and so the program, is to write.
        if (char const* options = std::getenv("TSAN_OPTIONS")) texts.push_back(std::string{"TSAN_OPTIONS="} + options);
        std::vector<char*> envp, argv{program_.data()};
        for (auto& text : texts) envp.push_back(text.data());
        for (auto& argument : arguments_) argv.push_back(argument.data());
        envp.push_back(nullptr);
        argv.push_back(nullptr);
        pid_ = ::fork();
        if (pid_ < 0) throw std::runtime_error{"fork failed"};
        if (pid_ > 0) return;
        // The child: only async-signal-safe calls from here on. It does not outlive the thread that started it.
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        int const log = ::open(log_path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
        ::dup2(log, STDOUT_FILENO);
        ::dup2(log, STDERR_FILENO);
        ::execve(program_.c_str(), argv.data(), envp.data());
        ::_exit(127);
    }

    bool is_running()
    {
        if (pid_ <= 0 || ended_) return false;
        int status{};
        if (::waitpid(pid_, &status, WNOHANG) == pid_) note(status);
        return !ended_;
    }

    void kill(int signal)
    {
        if (is_running()) ::kill(pid_, signal);
    }

    /// Waits for its end; kills it, and says so with SIGKILL, if it takes longer than `longest`.
    ending wait(std::chrono::milliseconds longest = wait_max)
    {
        if (pid_ <= 0) return {};
        if (!wait_until([&] { return !is_running(); }, longest)) {
            ::kill(pid_, SIGKILL);
            int status{};
            ::waitpid(pid_, &status, 0);
            note(status);
        }
        return *ended_;
    }

    ending run()
    {
        start();
        return wait();
    }

    ending terminate(std::chrono::milliseconds longest = wait_max)
    {
        kill(SIGTERM);
        return wait(longest);
    }

    void kill_and_restart()
    {
        kill(SIGKILL);
        wait();
        start();
    }

    pid_t pid() const { return pid_; }

    /// What it has said since it was started last.
    std::string log() const
    {
        std::ifstream file{log_path_};
        file.seekg(static_cast<std::streamoff>(log_start_));
        std::ostringstream text;
        text << file.rdbuf();
        return text.str();
    }
    bool has_logged(std::string_view text) const { return log().find(text) != std::string::npos; }

    /// The port of "http=127.0.0.1:PORT" in its log, 0 if there is none yet.
    std::uint16_t http_port() const { return port_after(" http=127.0.0.1:"); }
    std::uint16_t health_port() const { return port_after(" health=127.0.0.1:"); }

    std::size_t open_files() const { return count_in("/proc/" + std::to_string(pid_) + "/fd"); }
    long resident_kib() const
    {
        std::ifstream file{"/proc/" + std::to_string(pid_) + "/status"};
        for (std::string line; std::getline(file, line);)
            if (line.rfind("VmRSS:", 0) == 0) return std::strtol(line.c_str() + 6, nullptr, 10);
        return 0;
    }

private:
    std::uint16_t port_after(std::string_view mark) const
    {
        auto const text = log();
        auto const at = text.rfind(mark);
        if (at == std::string::npos) return 0;
        return static_cast<std::uint16_t>(std::strtoul(text.c_str() + at + mark.size(), nullptr, 10));
    }

    static std::size_t count_in(std::string const& folder)
    {
        std::size_t count = 0;
        for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator{folder}) ++count;
        return count;
    }

    void note(int status)
    {
        ended_.emplace();
        if (WIFEXITED(status)) ended_->code = WEXITSTATUS(status);
        if (WIFSIGNALED(status)) {
            ended_->signal = WTERMSIG(status);
            ended_->core_dumped = WCOREDUMP(status);
        }
    }
    std::size_t log_size() const
    {
        std::ifstream file{log_path_, std::ios::ate};
        return static_cast<std::size_t>(file.tellg());
    }

    std::string program_;
    std::vector<std::string> arguments_;
    environment variables_;
    std::string log_path_;
    std::atomic<std::size_t> log_start_{0};  // clients in other threads ask for the port
    pid_t pid_{-1};
    std::optional<ending> ended_;
};

}  // namespace skald::test
