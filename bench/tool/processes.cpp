#include "processes.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

namespace skald_bench {
namespace {

namespace fs = std::filesystem;

// The fields of /proc/PID/stat from the third on; the second, the name, may hold anything between its brackets.
std::vector<std::string> stat_of(pid_t pid)
{
    std::ifstream file{fmt::format("/proc/{}/stat", pid)};
    std::string const text{std::istreambuf_iterator<char>{file}, {}};
    auto const end = text.rfind(')');
    if (end == std::string::npos) return {};
    std::istringstream rest{text.substr(end + 1)};
    return {std::istream_iterator<std::string>{rest}, {}};
}

double seconds_in(std::vector<std::string> const& stat)
{
    if (stat.size() < 15) return 0;
    double ticks = 0;
    for (std::size_t const field : {11U, 12U, 13U, 14U}) ticks += std::stod(stat[field]);  // utime stime cutime cstime
    return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::vector<pid_t> all_processes()
{
    std::vector<pid_t> pids;
    for (auto const& entry : fs::directory_iterator{"/proc"}) {
        auto const name = entry.path().filename().string();
        if (std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; }))
            pids.push_back(std::stoi(name));
    }
    return pids;
}

std::string inode_of_listener(int port)
{
    for (auto const* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream file{path};
        auto const wanted = fmt::format(":{:04X}", port);
        for (std::string line; std::getline(file, line);) {
            std::istringstream words{line};
            std::vector<std::string> const fields{std::istream_iterator<std::string>{words}, {}};
            if (fields.size() > 9 && fields[3] == "0A" && fields[1].ends_with(wanted)) return fields[9];
        }
    }
    return {};
}

}  // namespace

double cpu_seconds(pid_t pid)
{
    return seconds_in(stat_of(pid));
}

double cpu_seconds_of_family(pid_t pid)
{
    std::multimap<pid_t, pid_t> children;
    for (auto const one : all_processes()) children.emplace(parent_of(one), one);
    double sum = 0;
    std::vector<pid_t> open{pid};
    while (!open.empty()) {
        auto const one = open.back();
        open.pop_back();
        sum += cpu_seconds(one);
        auto const [first, last] = children.equal_range(one);
        for (auto it = first; it != last; ++it) open.push_back(it->second);
    }
    return sum;
}

double peak_rss_mib(pid_t pid)
{
    std::ifstream file{fmt::format("/proc/{}/status", pid)};
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
    return 0;
}

pid_t parent_of(pid_t pid)
{
    auto const stat = stat_of(pid);
    return stat.size() < 2 ? 0 : std::stoi(stat[1]);
}

std::string name_of(pid_t pid)
{
    std::ifstream file{fmt::format("/proc/{}/comm", pid)};
    std::string name;
    std::getline(file, name);
    return name;
}

std::optional<pid_t> listener_on(int port)
{
    auto const inode = inode_of_listener(port);
    if (inode.empty()) return std::nullopt;
    auto const wanted = fmt::format("socket:[{}]", inode);
    for (auto const pid : all_processes()) {
        std::error_code hidden;
        for (fs::directory_iterator it{fmt::format("/proc/{}/fd", pid), hidden}, end; !hidden && it != end;
             it.increment(hidden)) {
            std::error_code gone;
            if (fs::read_symlink(it->path(), gone) == wanted) return pid;
        }
    }
    return std::nullopt;
}

}  // namespace skald_bench
