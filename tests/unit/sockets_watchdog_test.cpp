// One thread bounds the calls on all sockets of the process, and cuts none but the one whose time is up.
#include <doctest/doctest.h>

#include "sockets/watchdog.hpp"
#include "support/socket_pair.hpp"

#include <skald/testing/wait_until.hpp>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using skald::sockets::socket_interrupter;
using skald::sockets::watchdog;
using skald::test::socket_pair;
using skald::testing::wait_until;

watchdog::clock::time_point in(std::chrono::microseconds time)
{
    return watchdog::clock::now() + time;
}

/// A socket that is watched, as a connection has it.
struct bounded_socket
{
    socket_pair sockets;
    socket_interrupter interrupter;
    watchdog dog{interrupter};

    bounded_socket() { interrupter.hold(sockets.ends[0]); }

    /// Returns when the watchdog's thread has come to a deadline, and sleeps until the next one.
    bool is_cut_at(watchdog::clock::time_point deadline)
    {
        dog.watch(deadline);
        return sockets.is_shut_down() && !dog.done();
    }
};

std::set<std::string> threads()
{
    std::set<std::string> found;
    for (auto const& task : std::filesystem::directory_iterator{"/proc/self/task"})
        found.insert(task.path().filename());
    return found;
}

/// What the kernel says of a thread under this name.
std::string status_of(std::string const& thread, std::string const& name)
{
    std::ifstream status{"/proc/self/task/" + thread + "/status"};
    for (std::string word; status >> word;)
        if (word == name + ':' && status >> word) return word;
    return {};
}

/// How often it has gone to sleep; waits until it is asleep.
int sleeps_of(std::string const& thread)
{
    REQUIRE(wait_until([&] { return status_of(thread, "State") == "S"; }));
    return std::stoi(status_of(thread, "voluntary_ctxt_switches"));
}

}  // namespace

TEST_CASE("a watchdog breaks the socket when its deadline passes, and says so")
{
    bounded_socket one;
    CHECK(one.is_cut_at(in(20ms)));
}

TEST_CASE("a watchdog whose work was done in time breaks nothing")
{
    bounded_socket one, later;
    one.dog.watch(in(20ms));
    CHECK(one.dog.done());
    CHECK(later.is_cut_at(in(60ms)));  // tells that the first one's deadline has passed
    CHECK(one.sockets.is_open());
}

TEST_CASE("a watchdog that is gone breaks nothing")
{
    bounded_socket later;
    socket_pair sockets;
    socket_interrupter interrupter;
    interrupter.hold(sockets.ends[0]);
    std::optional<watchdog> dog{std::in_place, interrupter};
    dog->watch(in(20ms));
    dog.reset();
    CHECK(later.is_cut_at(in(60ms)));
    CHECK(sockets.is_open());
}

TEST_CASE("only the socket whose own deadline has passed is cut")
{
    bounded_socket patient, overdue, idle;
    patient.dog.watch(in(1h));
    CHECK(overdue.is_cut_at(in(20ms)));
    CHECK(patient.sockets.is_open());
    CHECK(patient.dog.done());
    CHECK(idle.sockets.is_open());
}

TEST_CASE("a deadline earlier than the one that the thread sleeps to is kept")
{
    bounded_socket patient, first, second;
    patient.dog.watch(in(1h));
    REQUIRE(first.is_cut_at(in(0ms)));  // and from here on it sleeps for an hour
    CHECK(second.is_cut_at(in(20ms)));
    CHECK(patient.dog.done());
}

TEST_CASE("after a call that was cut the next one is bounded anew")
{
    bounded_socket one;
    REQUIRE(one.is_cut_at(in(0ms)));
    socket_pair fresh;
    one.interrupter.hold(fresh.ends[0]);
    one.dog.watch(in(1h));
    CHECK(one.dog.done());
    CHECK(fresh.is_open());
    one.dog.watch(in(0ms));
    CHECK(fresh.is_shut_down());
    CHECK_FALSE(one.dog.done());
}

TEST_CASE("all watchdogs of a process share a thread, which begins with the first and ends with the last")
{
    auto const before = threads().size();
    std::vector<std::unique_ptr<bounded_socket>> many(20);
    for (auto& one : many) one = std::make_unique<bounded_socket>();
    for (auto& one : many) one->dog.watch(in(1h));
    CHECK(threads().size() == before + 1);
    many.erase(many.begin() + 1, many.end());
    CHECK(threads().size() == before + 1);
    many.clear();
    CHECK(wait_until([&] { return threads().size() == before; }));  // the kernel lists one for a moment after join()
    CHECK(bounded_socket{}.is_cut_at(in(0ms)));
}

TEST_CASE("work that is done in time does not wake the watchdog up")
{
    auto const before = threads();
    bounded_socket one, other;
    auto added = threads();
    for (auto const& thread : before) added.erase(thread);
    REQUIRE(added.size() == 1);
    auto const& thread = *added.begin();

    one.dog.watch(in(1h));
    auto const asleep = sleeps_of(thread);
    constexpr int calls = 500;
    for (int i = 0; i < calls; ++i) {
        other.dog.watch(in(2h));
        REQUIRE(other.dog.done());
        REQUIRE(sleeps_of(thread) < asleep + calls / 10);
    }
    CHECK(one.dog.done());
}

// What the threads of a worker do with their connections, at once and as fast as it goes: calls that end in time or
// about when it is up, sockets that are closed in the middle of one, whose number is another thread's at once, and
// watchdogs that come and go.
TEST_CASE("whatever many threads do at once, a socket is cut where done() says so and only there")
{
    constexpr unsigned rounds = 2'000;
    std::atomic<int> wrongly_cut{}, wrongly_spared{}, spared{}, cut{};
    auto const calls = [&](unsigned seed) {
        std::optional<bounded_socket> one;
        for (unsigned round = seed; round < seed + rounds; ++round) {
            if (!one) one.emplace();
            bool const closes_early = round % 5 == 0;
            bool const hangs = round % 7 == 0;
            one->dog.watch(in(std::chrono::microseconds{hangs ? 0 : round % 64}));
            if (closes_early) {
                one->interrupter.release();
                socket_pair fresh;
                std::swap(one->sockets.ends, fresh.ends);
            }
            else if (hangs) {
                (void)one->sockets.is_shut_down();
            }
            bool const is_spared = one->dog.done();
            bool const is_open = one->sockets.is_open();
            ++(is_spared ? spared : cut);
            if (!is_open && (is_spared || closes_early)) ++wrongly_cut;
            if (is_open && !is_spared && !closes_early) ++wrongly_spared;
            if (!is_open || closes_early || round % 3 == 0) one.reset();
        }
    };
    {
        std::vector<std::jthread> threads;
        for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(calls, seed);
    }
    CHECK(wrongly_cut == 0);
    CHECK(wrongly_spared == 0);
    CHECK(cut > 0);
    CHECK(spared > 0);
}
