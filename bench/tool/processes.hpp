// What the kernel says of processes: processor time and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace skald_bench {

/// Seconds of processor time of the process and of its children that have ended; 0 where it is gone.
double cpu_seconds(pid_t pid);

/// The same of the process and of all that descend from it.
double cpu_seconds_of_family(pid_t pid);

/// The most memory that the process ever had resident, in MiB; 0 where it is gone.
double peak_rss_mib(pid_t pid);

pid_t parent_of(pid_t pid);
std::string name_of(pid_t pid);

/// Which process of this machine listens on the TCP port; none where that can't be seen.
std::optional<pid_t> listener_on(int port);

}  // namespace skald_bench
