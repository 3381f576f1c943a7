// Tests with many sockets need more file descriptors than most shells give a process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace skald::test {

/// Throws, and so fails the test, if the machine does not let this process have that many.
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

/// Leaves this process `left` free file descriptors for as long as it lives.
class few_descriptors
{
public:
    explicit few_descriptors(std::size_t left)
    {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        auto fewer = before_;
        fewer.rlim_cur = std::min<rlim_t>(before_.rlim_cur, 1'024);
        ::setrlimit(RLIMIT_NOFILE, &fewer);
        for (int taken = ::open("/dev/null", O_RDONLY); taken >= 0; taken = ::dup(taken_.front()))
            taken_.push_back(taken);
        for (; left > 0 && !taken_.empty(); --left) free_one();
    }
    ~few_descriptors()
    {
        while (!taken_.empty()) free_one();
        ::setrlimit(RLIMIT_NOFILE, &before_);
    }
    few_descriptors(few_descriptors const&) = delete;
    few_descriptors& operator=(few_descriptors const&) = delete;

private:
    void free_one()
    {
        ::close(taken_.back());
        taken_.pop_back();
    }

    rlimit before_{};
    std::vector<int> taken_;
};

}  // namespace skald::test
