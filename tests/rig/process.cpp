#include "rig/process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <skald/testing/wait_until.hpp>

namespace skald::rig {
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

std::vector<std::string> texts_of(process_settings const& settings)
{
    auto variables = settings.variables;
    // Where a sanitizer that this, and so the program too, is built with is to write.
    if (char const* options = std::getenv("TSAN_OPTIONS")) variables.emplace("TSAN_OPTIONS", options);
    if (settings.inherits_environment)
        for (char** entry = ::environ; *entry != nullptr; ++entry) {
            std::string_view const known{*entry};
            auto const equals = known.find('=');
            variables.emplace(known.substr(0, equals), known.substr(std::min(equals, known.size() - 1) + 1));
        }
    std::vector<std::string> texts;
    for (auto const& [name, value] : variables) texts.push_back(name + '=' + value);
    return texts;
}

/// Runs between fork and exec: only calls that are safe when the parent has other threads.
[[noreturn]] void become(char const* program, char** arguments, char** environment, int log, pid_t parent)
{
    ::setpgid(0, 0);  // Ctrl-C on the terminal is for the demonstration, which then ends its services properly
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

std::string temporary_file()
{
    char name[] = "/tmp/skald-service-log-XXXXXX";
    descriptor const made{::mkstemp(name)};
    if (made.get() < 0) throw_errno("making a file for a log");
    return name;
}

std::string read_from(std::filesystem::path const& file, std::size_t start)
{
    std::ifstream in{file, std::ios::binary};
    in.seekg(static_cast<std::streamoff>(start));
    return {std::istreambuf_iterator<char>{in}, {}};
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

std::string in_words(ending const& how)
{
    return how.signal ? fmt::format("signal {}", *how.signal) : fmt::format("exit code {}", how.code.value_or(-1));
}

process::process(process_settings settings) : settings_{std::move(settings)}, log_is_temporary_{settings_.log.empty()}
{
    if (::access(settings_.program.c_str(), X_OK) != 0)
        throw std::runtime_error(
            fmt::format("{} is not there or cannot be run: build it with cmake --build build", settings_.program));
    if (settings_.name.empty()) settings_.name = settings_.program;
    if (log_is_temporary_) settings_.log = temporary_file();
}

process::~process()
{
    kill();
    std::error_code ignored;
    if (log_is_temporary_) std::filesystem::remove(settings_.log, ignored);
}

void process::start()
{
    if (is_running()) throw std::logic_error{settings_.name + " runs already"};
    descriptor const log{::open(settings_.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
    if (log.get() < 0) throw_errno("opening " + settings_.log.string());
    log_start_ = std::filesystem::file_size(settings_.log);
    ended_.reset();
    is_told_ = false;
    std::vector<std::string> words{settings_.program};
    words.insert(words.end(), settings_.arguments.begin(), settings_.arguments.end());
    auto texts = texts_of(settings_);
    auto argument_pointers = pointers(words);
    auto environment_pointers = pointers(texts);
    pid_t const parent = ::getpid();
    pid_t const child = ::fork();
    if (child < 0) throw_errno("starting " + settings_.name);
    if (child == 0)
        become(settings_.program.c_str(), argument_pointers.data(), environment_pointers.data(), log.get(), parent);
    pid_ = child;
}

bool process::is_running()
{
    if (pid_ <= 0 || ended_) return false;
    int status{};
    if (::waitpid(pid_, &status, WNOHANG) == pid_) note(status);
    return !ended_;
}

void process::kill(int signal)
{
    if (is_running()) ::kill(pid_, signal);
}

void process::kill()
{
    kill(SIGKILL);
    wait();
    is_told_ = true;
}

ending process::wait(std::chrono::milliseconds longest)
{
    if (pid_ <= 0) return {};
    if (!testing::wait_until([&] { return !is_running(); }, longest)) {
        ::kill(pid_, SIGKILL);
        int status{};
        while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
        note(status);
    }
    return *ended_;
}

ending process::run()
{
    start();
    return wait();
}

ending process::terminate(std::chrono::milliseconds longest)
{
    kill(SIGTERM);
    return wait(longest);
}

void process::kill_and_restart()
{
    kill();
    start();
}

std::optional<ending> process::ended()
{
    if (is_running() || !ended_ || std::exchange(is_told_, true)) return std::nullopt;
    return ended_;
}

std::string process::log() const
{
    return read_from(settings_.log, log_start_);
}

std::string process::log_tail() const
{
    auto text = read_from(settings_.log, 0);
    if (text.size() > log_tail_bytes) text = "..." + text.substr(text.size() - log_tail_bytes);
    return text.empty() ? "(its log is empty)" : text;
}

std::uint16_t process::port_after(std::string_view mark) const
{
    auto const text = log();
    auto const at = text.rfind(mark);
    if (at == std::string::npos) return 0;
    return static_cast<std::uint16_t>(std::strtoul(text.c_str() + at + mark.size(), nullptr, 10));
}

std::size_t process::open_files() const
{
    std::filesystem::directory_iterator const files{"/proc/" + std::to_string(pid_) + "/fd"};
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

long process::resident_kib() const
{
    std::ifstream file{"/proc/" + std::to_string(pid_) + "/status"};
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("VmRSS:")) return std::strtol(line.c_str() + 6, nullptr, 10);
    return 0;
}

void process::note(int status)
{
    ended_.emplace();
    if (WIFEXITED(status)) ended_->code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) {
        ended_->signal = WTERMSIG(status);
        ended_->core_dumped = WCOREDUMP(status);
    }
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

}  // namespace skald::rig
