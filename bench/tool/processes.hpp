// What the kernel reports about processes: processor time and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace skald_bench {

/// Seconds of processor time of the process and of its children that have ended; 0 if it is gone.
double cpu_seconds(pid_t pid);

/// The same for the process and all its descendants.
double cpu_seconds_of_family(pid_t pid);

/// The process's peak resident memory, in MiB; 0 if it is gone.
double peak_rss_mib(pid_t pid);

pid_t parent_of(pid_t pid);
std::string name_of(pid_t pid);

/// Which process of this machine listens on the TCP port; none if that can't be seen.
std::optional<pid_t> listener_on(int port);

}  // namespace skald_bench
