// Writes deliveries of healthy sagas down, for tests of later versions: SKALD_RECORD_DELIVERIES, docs/recorded.md.
#pragma once

#include "core/log.hpp"
#include "runtime/task.hpp"

#include <mutex>
#include <set>
#include <string>
#include <tuple>

namespace skald::runtime {

/// Appends the first delivery of each step, version and direction to a file, as it came. Several processes may have the
/// same file. What can't be written any more is logged once; deliveries go on. Threads: any.
class delivery_recording
{
public:
    /// Throws configuration_error if the file can't be opened. Only its owner can read one that is made here.
    explicit delivery_recording(std::string const& file, core::logger& log);
    ~delivery_recording();
    delivery_recording(delivery_recording const&) = delete;
    delivery_recording& operator=(delivery_recording const&) = delete;

    /// Not of a delivery that is refused, whose step is not hosted, or whose data is kept elsewhere.
    void note(task const& t);

private:
    std::string file_;
    core::logger& log_;
    int descriptor_{-1};
    std::mutex mutex_;
    std::set<std::tuple<std::string, int, std::string, bool>> seen_;
};

}  // namespace skald::runtime
