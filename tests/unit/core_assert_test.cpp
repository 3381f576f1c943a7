// A broken invariant ends the process, in every build, and says which it was.
#include <doctest/doctest.h>

#include "core/assert.hpp"

#include <array>
#include <csignal>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace {

struct ending
{
    int status{};
    std::string said;
};

/// How a process ends that does this.
template <class Work>
ending end_of(Work work)
{
    std::array<int, 2> pipe{};
    REQUIRE(::pipe(pipe.data()) == 0);
    auto const child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::signal(SIGABRT, SIG_DFL);  // doctest's own handler would tell of a test that crashed
        ::dup2(pipe[1], STDERR_FILENO);
        work();
        ::_exit(0);
    }
    ::close(pipe[1]);
    ending how;
    std::array<char, 256> read{};
    for (ssize_t size; (size = ::read(pipe[0], read.data(), read.size())) > 0;)
        how.said.append(read.data(), static_cast<std::size_t>(size));
    ::close(pipe[0]);
    REQUIRE(::waitpid(child, &how.status, 0) == child);
    return how;
}

}  // namespace

TEST_CASE("what does not hold ends the process and is named with its file and line")
{
    int const line = __LINE__ + 1;
    auto const how = end_of([] { SKALD_ASSERT(1 + 1 == 3); });
    CHECK(WIFSIGNALED(how.status));
    CHECK(WTERMSIG(how.status) == SIGABRT);
    CHECK(how.said.find("1 + 1 == 3") != std::string::npos);
    CHECK(how.said.find("core_assert_test.cpp:" + std::to_string(line)) != std::string::npos);
}

TEST_CASE("what holds is looked at once and passed by")
{
    int looks = 0;
    auto const holds = [&] { return ++looks > 0; };
    SKALD_ASSERT(holds());
    CHECK(looks == 1);
}
