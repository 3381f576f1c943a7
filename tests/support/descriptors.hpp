// Tests with many sockets need more file descriptors than most shells give a process.
#pragma once

#include <stdexcept>
#include <string>

#include <sys/resource.h>

namespace skald::test {

/// Throws, and so fails the test, where the machine does not let this process have as many.
inline void need_descriptors(unsigned long count)
{
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= count) return;
    limit.rlim_cur = count;
    if (limit.rlim_max < count || ::setrlimit(RLIMIT_NOFILE, &limit) != 0)
        throw std::runtime_error{"this test needs " + std::to_string(count) +
                                 " file descriptors and the hard limit is " + std::to_string(limit.rlim_max) +
                                 ": raise it (ulimit -Hn " + std::to_string(count) +
                                 " as root, LimitNOFILE= of the service, --ulimit nofile= of the container)"};
}

}  // namespace skald::test
