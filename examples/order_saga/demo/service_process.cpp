#include "service_process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

namespace order_demo {
namespace {

constexpr std::size_t log_tail_bytes = 4'000;

/// Closed by its destructor.
class descriptor
{
public:
    explicit descriptor(int number) : number_{number} {}
    ~descriptor()
    {
        if (number_ >= 0) ::close(number_);
    }
    descriptor(descriptor const&) = delete;
    descriptor& operator=(descriptor const&) = delete;
    int get() const { return number_; }

private:
    int number_;
};

[[noreturn]] void throw_errno(std::string const& doing)
{
    throw std::runtime_error(fmt::format("{}: {}", doing, std::strerror(errno)));
}

std::vector<char*> pointers(std::vector<std::string>& texts)
{
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (auto& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
}

/// What this process has, without the names that are given anew.
std::vector<std::string> environment_with(std::vector<std::string> const& added)
{
    std::vector<std::string> environment{added};
    for (char** entry = ::environ; *entry != nullptr; ++entry) {
        std::string const known{*entry};
        auto const name = known.substr(0, known.find('=') + 1);
        if (std::none_of(added.begin(), added.end(), [&](auto const& one) { return one.starts_with(name); }))
            environment.push_back(known);
    }
    return environment;
}

/// Runs between fork and exec: only calls that are safe when the parent has other threads.
[[noreturn]] void become(char const* program, char** arguments, char** environment, int log, pid_t parent)
{
    ::setpgid(0, 0);  // Ctrl-C on the terminal is for the demonstration, which then ends its services in order
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);  // the parent was already gone when prctl was called
    for (int const one : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(one, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::execve(program, arguments, environment);
    ::_exit(127);
}

std::string describe(int status)
{
    if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
    return fmt::format("exit code {}", WEXITSTATUS(status));
}

int first_outgoing_port()
{
    int low = 32'768;
    std::ifstream{"/proc/sys/net/ipv4/ip_local_port_range"} >> low;
    return low;
}

bool can_listen_on(int port)
{
    descriptor const socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::bind(socket.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0;
}

}  // namespace

service_process::service_process(service_settings settings) : settings_{std::move(settings)}
{
    if (::access(settings_.program.c_str(), X_OK) != 0)
        throw std::runtime_error(fmt::format("{} is not there or cannot be run: build it with cmake --build build",
                                             settings_.program.string()));
}

service_process::~service_process()
{
    kill();
}

void service_process::start()
{
    descriptor const log{::open(settings_.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
    if (log.get() < 0) throw_errno("opening " + settings_.log.string());
    std::vector<std::string> words{settings_.program.string()};
    words.insert(words.end(), settings_.arguments.begin(), settings_.arguments.end());
    auto environment = environment_with(settings_.environment);
    auto argument_pointers = pointers(words);
    auto environment_pointers = pointers(environment);
    pid_t const parent = ::getpid();
    pid_t const child = ::fork();
    if (child < 0) throw_errno("starting " + settings_.name);
    if (child == 0)
        become(settings_.program.c_str(), argument_pointers.data(), environment_pointers.data(), log.get(), parent);
    pid_ = child;
}

void service_process::kill()
{
    if (!running()) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
    pid_ = -1;
}

void service_process::ask_to_end() const
{
    if (running()) ::kill(pid_, SIGTERM);
}

std::optional<std::string> service_process::ended()
{
    int status = 0;
    if (!running() || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = -1;
    return describe(status);
}

std::string service_process::log_tail() const
{
    std::ifstream file{settings_.log, std::ios::binary};
    std::string text{std::istreambuf_iterator<char>{file}, {}};
    if (text.size() > log_tail_bytes) text = "..." + text.substr(text.size() - log_tail_bytes);
    return text.empty() ? "(its log is empty)" : text;
}

std::uint16_t find_free_port()
{
    std::random_device random;
    int const high = std::max(first_outgoing_port(), 11'000);
    int const low = 10'000;
    for (int tries = 0; tries < 1'000; ++tries) {
        int const port = std::uniform_int_distribution<int>{low, std::min(high, 65'535) - 1}(random);
        if (can_listen_on(port)) return static_cast<std::uint16_t>(port);
    }
    throw std::runtime_error("no free port on 127.0.0.1");
}

}  // namespace order_demo
