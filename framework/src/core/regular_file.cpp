#include "core/regular_file.hpp"

#include <array>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace skald::core {
namespace {

constexpr std::size_t size_max = 1024 * 1024;

struct descriptor
{
    int number{-1};
    explicit descriptor(std::string const& name) : number{::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)} {}
    ~descriptor()
    {
        if (number >= 0) ::close(number);
    }
    descriptor(descriptor const&) = delete;
    descriptor& operator=(descriptor const&) = delete;
};

[[noreturn]] void fail(int error)
{
    throw file_not_read{"can't be read: " + std::generic_category().message(error), false};
}

}  // namespace

std::string read_regular_file(std::string const& name)
{
    descriptor const file{name};
    struct stat about
    {};
    if (file.number < 0 || ::fstat(file.number, &about) != 0) fail(errno);
    if (S_ISDIR(about.st_mode)) throw file_not_read{"can't be read: it is a folder", true};
    if (!S_ISREG(about.st_mode)) throw file_not_read{"can't be read: it is a pipe or a device, and not a file", true};
    std::string text;
    std::array<char, 16'384> chunk{};
    for (ssize_t size = 0; (size = ::read(file.number, chunk.data(), chunk.size())) != 0;) {
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) fail(errno);
        text.append(chunk.data(), static_cast<std::size_t>(size));
        if (text.size() > size_max) throw file_not_read{"can't be read: it has more than 1 MiB", true};
    }
    return text;
}

}  // namespace skald::core
