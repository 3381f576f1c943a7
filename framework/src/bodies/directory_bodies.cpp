#include "bodies/directory_bodies.hpp"

#include "core/text.hpp"
#include "ports/fault.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace skald::bodies {
namespace {

namespace fs = std::filesystem;

constexpr mode_t file_mode = 0660;
constexpr mode_t folder_mode = 0770;
constexpr std::size_t read_bytes = 1024 * 1024;
constexpr std::size_t hex_digits = 64;

[[noreturn]] void fail(std::string const& doing, std::string const& path)
{
    throw ports::fault{ports::fault_kind::unavailable,
                       doing + ' ' + path + ": " + std::generic_category().message(errno)};
}

class file
{
public:
    file(std::string const& path, int flags) : fd_{::open(path.c_str(), flags | O_CLOEXEC, file_mode)} {}
    ~file()
    {
        if (is_open()) ::close(fd_);
    }
    file(file const&) = delete;
    file& operator=(file const&) = delete;

    bool is_open() const { return fd_ >= 0; }
    int get() const { return fd_; }

private:
    int fd_;
};

// What a crash must not undo: a new name in a folder.
void flush_folder(std::string const& folder)
{
    file const opened{folder, O_RDONLY | O_DIRECTORY};
    if (!opened.is_open() || ::fsync(opened.get()) != 0) fail("can't flush", folder);
}

/// The lock of a folder, and the time by the clock of whoever serves the files.
class folder_lock
{
public:
    explicit folder_lock(std::string const& folder) : opened_{folder + "/.lock", O_CREAT | O_RDWR}
    {
        if (!opened_.is_open() || ::flock(opened_.get(), LOCK_EX) != 0) fail("can't lock", folder);
    }

    time_t now() const
    {
        struct stat met
        {};
        if (::futimens(opened_.get(), nullptr) != 0 || ::fstat(opened_.get(), &met) != 0) fail("can't touch", "a lock");
        return met.st_mtim.tv_sec;
    }

private:
    file opened_;  // closing it unlocks
};

void touch(std::string const& path)
{
    if (::utimensat(AT_FDCWD, path.c_str(), nullptr, 0) != 0) fail("can't touch", path);
}

bool is_file(std::string const& path, struct stat& met)
{
    if (::stat(path.c_str(), &met) == 0) return true;
    if (errno != ENOENT) fail("can't look at", path);
    return false;
}

void write_all(file const& to, std::string_view bytes, std::string const& path)
{
    while (!bytes.empty()) {
        auto const written = ::write(to.get(), bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail("can't write", path);
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
}

constexpr std::string_view half_end = "..new";  // of a file that is being written: no holder has an empty name

bool is_hex(std::string_view text, std::size_t digits)
{
    return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string hex_of(core::body_reference const& what)
{
    return core::to_hex(what.fingerprint);
}

// What a crash has left. Under the lock nobody writes one.
void remove_halves(std::string const& folder, std::vector<std::string> const& halves)
{
    if (halves.empty()) return;
    folder_lock const locked{folder};
    for (auto const& half : halves) fs::remove(half);
}

}  // namespace

directory_bodies::directory_bodies(std::string directory, std::string holder)
    : root_{std::move(directory)}, holder_{std::move(holder)}
{}

std::vector<std::string> directory_bodies::folders() const
{
    std::vector<std::string> found;
    for (auto const& one : fs::directory_iterator{root_})
        if (auto name = one.path().filename().string(); is_hex(name, 2) && one.is_directory()) found.push_back(name);
    std::ranges::sort(found);
    return found;
}

// The mount point of a directory that is not mounted is there and empty. It lacks nothing in particular.
void directory_bodies::check_it_is_there() const
try {
    if (folders().empty())
        throw ports::fault{ports::fault_kind::unavailable, root_ + " has no bodies at all: it may not be mounted"};
}
catch (fs::filesystem_error const& error) {
    throw ports::fault{ports::fault_kind::unavailable, error.what()};
}

void directory_bodies::mark(std::string const& hex) const
{
    auto const path = path_of(hex) + '.' + holder_;
    file const made{path, O_CREAT | O_WRONLY};
    if (!made.is_open()) fail("can't create", path);
}

void directory_bodies::keep(core::body_reference const& what, std::string_view body)
{
    auto const hex = hex_of(what);
    if (::mkdir(folder_of(hex).c_str(), folder_mode) == 0) flush_folder(root_);
    else if (errno != EEXIST) fail("can't create", folder_of(hex));
    folder_lock const locked{folder_of(hex)};
    struct stat met
    {};
    // One of another size is what a crash of the server, or somebody else, has left of it.
    if (is_file(path_of(hex), met) && static_cast<std::uint64_t>(met.st_size) == what.size) touch(path_of(hex));
    else {
        auto const half = path_of(hex).append(half_end);
        file const made{half, O_CREAT | O_TRUNC | O_WRONLY};
        if (!made.is_open()) fail("can't create", half);
        try {
            write_all(made, body, half);
            if (::fsync(made.get()) != 0) fail("can't flush", half);
            if (::rename(half.c_str(), path_of(hex).c_str()) != 0) fail("can't rename", half);
        }
        catch (...) {
            ::unlink(half.c_str());  // a full disk needs its room
            throw;
        }
    }
    mark(hex);
    flush_folder(folder_of(hex));
}

bool directory_bodies::hold(core::body_reference const& what)
{
    auto const hex = hex_of(what);
    struct stat met
    {};
    if (!is_file(path_of(hex), met)) {
        check_it_is_there();
        return false;
    }
    folder_lock const locked{folder_of(hex)};
    if (!is_file(path_of(hex), met)) return false;
    touch(path_of(hex));
    mark(hex);
    flush_folder(folder_of(hex));
    return true;
}

std::string directory_bodies::read(core::body_reference const& what)
{
    auto const path = path_of(hex_of(what));
    file const from{path, O_RDONLY};
    if (!from.is_open()) {
        if (errno != ENOENT) fail("can't open", path);
        check_it_is_there();
        throw ports::missing_body(what, name());
    }
    std::string body(what.size, '\0');
    std::size_t at = 0;
    while (at < body.size()) {
        auto const got = ::read(from.get(), body.data() + at, std::min(read_bytes, body.size() - at));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail("can't read", path);
        if (got == 0) break;
        at += static_cast<std::size_t>(got);
    }
    body.resize(at);
    ports::verify_body(what, body, name());
    return body;
}

std::size_t directory_bodies::purge(std::chrono::seconds older_than, std::size_t most,
                                    std::function<bool(core::body_reference const&)> const& is_in_use,
                                    ports::purge_place& at)
try {
    std::size_t gone = 0;
    for (auto const& folder : folders()) {
        if (folder < at.after.substr(0, 2)) continue;
        std::vector<std::string> all, halves;
        for (auto const& one : fs::directory_iterator{root_ + '/' + folder}) {
            auto const name = one.path().filename().string();
            if (name.ends_with(half_end)) halves.push_back(one.path().string());
            else if (is_hex(name, hex_digits) && name > at.after) all.push_back(name);
        }
        remove_halves(root_ + '/' + folder, halves);
        std::ranges::sort(all);
        for (auto const& hex : all) {
            if (purge_one(hex, older_than, is_in_use)) ++gone;
            at.after = hex;
            if (gone >= most || (at.is_over && at.is_over())) return gone;
        }
    }
    at.after.clear();
    return gone;
}
catch (fs::filesystem_error const& error) {
    throw ports::fault{ports::fault_kind::unavailable, error.what()};
}

bool directory_bodies::purge_one(std::string const& hex, std::chrono::seconds older_than,
                                 std::function<bool(core::body_reference const&)> const& is_in_use)
{
    folder_lock const locked{folder_of(hex)};
    struct stat met
    {};
    if (!is_file(path_of(hex), met)) return false;
    auto const age = std::chrono::seconds{locked.now() - met.st_mtim.tv_sec};
    if (age < older_than / 2) return false;
    if (is_in_use({core::from_hex(hex), static_cast<std::uint64_t>(met.st_size)})) {
        touch(path_of(hex));
        mark(hex);
        return false;
    }
    fs::remove(path_of(hex) + '.' + holder_);
    bool const is_held = std::ranges::any_of(fs::directory_iterator{folder_of(hex)}, [&](auto const& one) {
        auto const name = one.path().filename().string();
        return name.starts_with(hex + '.') && !name.ends_with(half_end);
    });
    if (is_held || age < older_than) return false;
    fs::remove(path_of(hex));
    return true;
}

}  // namespace skald::bodies
