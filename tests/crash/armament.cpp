#include "armament.hpp"

#include <fstream>
#include <iterator>
#include <stdexcept>

#include <fcntl.h>
#include <unistd.h>

namespace skald::crash {
namespace {

std::string new_file()
{
    char name[] = "/tmp/skald-crash-XXXXXX";
    int const file = ::mkstemp(name);
    if (file < 0) throw std::runtime_error{"no temporary file"};
    ::close(file);
    return name;
}

}  // namespace

armament::armament() : program_{new_file()}, trace_{new_file()} {}

armament::~armament()
{
    ::unlink(program_.c_str());
    ::unlink(trace_.c_str());
}

void armament::add_to(test::environment& variables) const
{
    variables["SKALD_FAILPOINTS"] = '@' + program_;
    variables["SKALD_FAILPOINT_TRACE"] = trace_;
}

void armament::rearm(std::string const& text)
{
    // Newlines at the end mean nothing but make it a different text, so that the counts start again; one write, so that
    // it is read in one piece.
    std::string record = text + std::string(1 + generation_++ % 64, '\n');
    int const file = ::open(program_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (file < 0 || ::write(file, record.data(), record.size()) != static_cast<ssize_t>(record.size()))
        throw std::runtime_error{"can't write " + program_};
    ::close(file);
}

void armament::arm(std::string const& text)
{
    if (::truncate(trace_.c_str(), 0) != 0) throw std::runtime_error{"can't empty " + trace_};
    rearm(text);
}

std::map<std::string, unsigned> armament::hits() const
{
    std::map<std::string, unsigned> counts;
    std::ifstream file{trace_};
    std::string point, count, action;
    while (file >> point >> count >> action) ++counts[point];
    return counts;
}

bool armament::sprang() const
{
    std::ifstream file{trace_};
    std::string point, count, action;
    while (file >> point >> count >> action)
        if (action != "-") return true;
    return false;
}

bool is_stopped(pid_t pid)
{
    std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
    std::string text{std::istreambuf_iterator<char>{file}, {}};
    auto const end = text.rfind(") ");
    return end != std::string::npos && text.size() > end + 2 && text[end + 2] == 'T';
}

}  // namespace skald::crash
