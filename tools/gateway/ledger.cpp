#include "ledger.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gateway {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(entry, id, charge, amount, currency, reference, status, key, request)

namespace {

[[noreturn]] void refuse(std::filesystem::path const& file, std::string_view what)
{
    throw std::runtime_error{fmt::format("{}: {}", file.string(), what)};
}

int open_alone(std::filesystem::path const& name)
{
    int const file = ::open(name.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) refuse(name, std::strerror(errno));
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
        ::close(file);
        refuse(name, "another gateway uses this ledger");
    }
    return file;
}

// A new file is there for good when its folder is on disk, too.
void sync_folder(std::filesystem::path const& file)
{
    auto const folder = std::filesystem::absolute(file).parent_path();
    int const handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0 || ::fsync(handle) != 0) refuse(folder, std::strerror(errno));
    ::close(handle);
}

std::string contents(int file, std::filesystem::path const& name)
{
    std::string text;
    char bytes[64 * 1024];
    for (;;) {
        auto const size = ::pread(file, bytes, sizeof bytes, static_cast<off_t>(text.size()));
        if (size < 0) refuse(name, std::strerror(errno));
        if (size == 0) return text;
        text.append(bytes, static_cast<std::size_t>(size));
    }
}

}  // namespace

ledger::ledger(std::filesystem::path const& file) : name_{file}, file_{open_alone(file)}
{
    try {
        sync_folder(name_);
        read();
    }
    catch (...) {
        ::close(file_);
        throw;
    }
}

ledger::~ledger()
{
    ::close(file_);
}

void ledger::read()
{
    auto const text = contents(file_, name_);
    std::size_t start = 0;
    for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
        auto const line = std::string_view{text}.substr(start, end - start);
        try {
            entries_.push_back(nlohmann::json::parse(line).get<entry>());
        }
        catch (nlohmann::json::exception const& error) {
            refuse(name_, fmt::format("line {} is no entry: {}", entries_.size() + 1, error.what()));
        }
        start = end + 1;
    }
    if (start == text.size()) return;
    if (::ftruncate(file_, static_cast<off_t>(start)) != 0 || ::fsync(file_) != 0) refuse(name_, std::strerror(errno));
    fmt::print(stderr, "gateway: cut off {} bytes that were being written to the ledger at a death\n",
               text.size() - start);
}

void ledger::append(entry made)
{
    auto const line = nlohmann::json(made).dump() + '\n';
    bool const is_written = ::write(file_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    if (!is_written || ::fdatasync(file_) != 0) {
        fmt::print(stderr, "gateway: writing the ledger: {}\n", std::strerror(errno));
        std::_Exit(1);
    }
    entries_.push_back(std::move(made));
}

}  // namespace gateway
