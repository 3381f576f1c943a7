#include "runtime/delivery_recording.hpp"

#include "core/recorded_delivery.hpp"

#include <skald/errors.hpp>

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace skald::runtime {

delivery_recording::delivery_recording(std::string const& file, core::logger& log) : file_{file}, log_{log}
{
    // What customers sent is in it.
    descriptor_ = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (descriptor_ < 0)
        throw configuration_error{"SKALD_RECORD_DELIVERIES: " + file + " can't be written: " + std::strerror(errno)};
}

delivery_recording::~delivery_recording()
{
    if (descriptor_ >= 0) ::close(descriptor_);
}

void delivery_recording::note(task const& t)
{
    auto const* const m = t.step();
    if (m == nullptr || m->hosted == nullptr || t.refused || t.kept) return;
    auto const& e = m->envelope;
    std::lock_guard const lock{mutex_};
    if (descriptor_ < 0 || !seen_.emplace(e.definition, e.version, e.itinerary.current().name, m->is_forward()).second)
        return;
    auto const line = core::write_recorded(t.delivery.message) + '\n';
    // In one piece: another process may append to the same file.
    auto const written = ::write(descriptor_, line.data(), line.size());
    if (written == static_cast<ssize_t>(line.size())) return;
    std::string const why = written < 0 ? std::strerror(errno) : "there was room for a part of the line only";
    // With a torn line in it, nothing of the file could be read. What another process has appended since stays.
    struct stat is
    {};
    auto const end = ::lseek(descriptor_, 0, SEEK_CUR);
    if (written > 0 && ::fstat(descriptor_, &is) == 0 && is.st_size == end &&
        ::ftruncate(descriptor_, end - written) != 0)
        log_.warning("delivery.not_recorded", {{"file", file_}, {"error", "its last line is torn: remove it"}});
    log_.warning("delivery.not_recorded", {{"file", file_}, {"error", why}});
    ::close(descriptor_);
    descriptor_ = -1;
}

}  // namespace skald::runtime
