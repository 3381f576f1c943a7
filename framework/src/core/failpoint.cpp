// What a build with failpoints does at them, as set in the environment:
//
//     SKALD_FAILPOINTS=step.committed=kill@2      at the second hit of that point in this process
//     SKALD_FAILPOINTS=@/tmp/program              the same text from a file, which is read at every hit: writing to it
//                                                 arms and disarms a running process, and resets its counts
//     SKALD_FAILPOINT_TRACE=/tmp/trace            a line `name hit action` for every hit, before anything happens
//
// Actions: kill (SIGKILL), throw, reset (the point's socket is shut down), stop (SIGSTOP, until it gets SIGCONT),
// sleep:MS (this thread only). Several programs are separated by ';'; the hit is 1 if none is given.
#include "core/failpoint.hpp"

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <variant>
#include <vector>

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

namespace skald::core {
namespace {

enum class action { kill, throw_, reset, stop, sleep };

struct rule
{
    std::size_t point{};
    action what{};
    unsigned hit{1};
    std::chrono::milliseconds pause{};
    std::string_view text;  // the action, as written
};

std::optional<unsigned> read_number(std::string_view text)
{
    unsigned number{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

std::optional<std::size_t> find_point(std::string_view name)
{
    for (std::size_t i = 0; i < failpoints.size(); ++i)
        if (failpoints[i].name == name) return i;
    return std::nullopt;
}

/// Whether it is an action; if so, fills in what it does.
bool read_action(std::string_view text, rule& into)
{
    constexpr std::array<std::string_view, 4> names{"kill", "throw", "reset", "stop"};
    into.text = text;
    for (std::size_t i = 0; i < names.size(); ++i)
        if (text == names[i]) return into.what = static_cast<action>(i), true;
    if (!text.starts_with("sleep:")) return false;
    auto const pause = read_number(text.substr(6));
    into.what = action::sleep;
    into.pause = std::chrono::milliseconds{pause.value_or(0)};
    return pause.has_value();
}

/// One `point=action@hit`, or why it is not one.
std::variant<rule, std::string> read_rule(std::string_view text)
{
    auto const equals = text.find('=');
    auto const point = find_point(text.substr(0, equals));
    if (!point || equals == std::string_view::npos) return fmt::format("'{}' names no failpoint", text);
    rule read;
    read.point = *point;
    auto const at = text.find('@', equals);
    auto const hit = at == std::string_view::npos ? 1 : read_number(text.substr(at + 1));
    if (!hit || *hit == 0) return fmt::format("'{}': behind @ comes which hit, from 1", text);
    read.hit = *hit;
    if (!read_action(text.substr(equals + 1, at == std::string_view::npos ? at : at - equals - 1), read))
        return fmt::format("'{}': the actions are kill, throw, reset, stop and sleep:MS", text);
    return read;
}

std::variant<std::vector<rule>, std::string> read_program(std::string_view text)
{
    std::vector<rule> rules;
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    while (!text.empty()) {
        auto const end = text.find(';');
        auto read = read_rule(text.substr(0, end));
        if (auto* why = std::get_if<std::string>(&read)) return std::move(*why);
        rules.push_back(std::get<rule>(read));
        text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    }
    return rules;
}

std::string_view variable(char const* name)
{
    char const* const value = std::getenv(name);
    return value == nullptr ? std::string_view{} : std::string_view{value};
}

int open_named(std::string_view path, int flags)
{
    return path.empty() ? -1 : ::open(std::string{path}.c_str(), flags | O_CLOEXEC, 0644);
}

/// The process's failpoints: what is armed, and how often each was hit since.
class board
{
public:
    board()
    {
        auto const text = variable("SKALD_FAILPOINTS");
        if (text.starts_with('@')) file_ = open_named(text.substr(1), O_RDONLY);
        else arm(std::string{text});
        trace_ = open_named(variable("SKALD_FAILPOINT_TRACE"), O_WRONLY | O_APPEND | O_CREAT);
    }

    /// Counts the hit, traces it, and returns what is to be done.
    std::optional<rule> hit(std::size_t point)
    {
        std::lock_guard const lock{mutex_};
        read_again();
        auto const count = ++hits_[point];
        std::optional<rule> found;
        for (auto const& one : rules_)
            if (one.point == point && one.hit == count) found = one;
        trace(fmt::format("{} {} {}\n", failpoints[point].name, count, found ? found->text : "-"));
        return found;
    }

private:
    void read_again()
    {
        if (file_ < 0) return;
        std::array<char, 512> bytes{};
        auto const size = ::pread(file_, bytes.data(), bytes.size(), 0);
        if (size < 0) return;
        std::string now(bytes.data(), static_cast<std::size_t>(size));
        if (now != text_) arm(std::move(now));
    }

    void arm(std::string text)
    {
        text_ = std::move(text);
        auto read = read_program(text_);
        // A file that is being written may be incomplete; the next hit reads it again.
        rules_ = std::holds_alternative<std::string>(read) ? std::vector<rule>{} : std::get<std::vector<rule>>(read);
        hits_.fill(0);
    }

    // One write(2): it survives a SIGKILL right after it.
    void trace(std::string const& line) const
    {
        if (trace_ >= 0) [[maybe_unused]]
            auto const ignored = ::write(trace_, line.data(), line.size());
    }

    std::mutex mutex_;
    std::string text_;
    std::vector<rule> rules_;
    std::array<unsigned, failpoints.size()> hits_{};
    int file_{-1};
    int trace_{-1};
};

board& the_board()
{
    static board one;
    return one;
}

// A lane, a publish loop and the HTTP thread each have a database connection, a publisher or a client of their
// own; the consumer's connection is the process's.
thread_local int own_postgres = -1;
thread_local int own_client = -1;
thread_local int own_publisher = -1;
std::atomic<int> consumer{-1};

/// How many data segments a socket has sent, as far as the kernel reports.
std::uint32_t segments_sent(int descriptor)
{
    tcp_info info{};
    socklen_t size = sizeof info;
    return ::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_data_segs_out : 0;
}

/// Lets what is sent next arrive, and shuts the socket down for reading before the reply arrives. libpqxx checks for
/// the end of the connection before it sends anything, so the socket can't be shut down at once.
void lose_reply(int descriptor)
{
    std::thread{[own = ::dup(descriptor), before = segments_sent(descriptor)] {
        auto const until = std::chrono::steady_clock::now() + std::chrono::seconds{1};
        while (segments_sent(own) == before && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        ::shutdown(own, SHUT_RD);
        ::close(own);
    }}.detach();
}

void shut_down(fault_socket which)
{
    switch (which) {
    case fault_socket::postgres: ::shutdown(own_postgres, SHUT_RDWR); break;
    case fault_socket::reply: lose_reply(own_postgres); break;
    case fault_socket::publisher: ::shutdown(own_publisher, SHUT_RDWR); break;
    case fault_socket::consumer: ::shutdown(consumer, SHUT_RDWR); break;
    case fault_socket::client: ::shutdown(own_client, SHUT_RDWR); break;
    }
}

}  // namespace

void pass_failpoint(std::size_t number)
{
    auto const armed = the_board().hit(number);
    if (!armed) return;
    switch (armed->what) {
    case action::kill: ::kill(::getpid(), SIGKILL); break;
    case action::stop: ::kill(::getpid(), SIGSTOP); break;
    case action::sleep: std::this_thread::sleep_for(armed->pause); break;  // the disturbance itself
    case action::reset: shut_down(failpoints[number].socket); break;
    case action::throw_:
        throw std::runtime_error{fmt::format("the failpoint {} was told to throw", failpoints[number].name)};
    }
}

void record_socket(fault_socket which, int descriptor) noexcept
{
    switch (which) {
    case fault_socket::postgres:
    case fault_socket::reply: own_postgres = descriptor; break;
    case fault_socket::publisher: own_publisher = descriptor; break;
    case fault_socket::consumer: consumer = descriptor; break;
    case fault_socket::client: own_client = descriptor; break;
    }
}

std::string refuse_failpoint_setting(std::string_view variable, std::string_view value)
{
    if (variable == "SKALD_FAILPOINTS" && !value.starts_with('@')) {
        auto read = read_program(value);
        if (auto* why = std::get_if<std::string>(&read)) return std::move(*why);
    }
    return {};
}

}  // namespace skald::core
