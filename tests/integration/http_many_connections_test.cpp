// Very many connections: those that are idle cost little, and those that are slow cost nobody else anything.
#include <doctest/doctest.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>

#include <skald/testing/wait_until.hpp>

#include "support/descriptors.hpp"
#include "support/live_server.hpp"

using namespace skald::test;
using skald::http::server_load;
using skald::test::need_descriptors;
using skald::testing::wait_until;

namespace {

constexpr std::size_t idle_count = 10'000;
constexpr std::size_t spare_descriptors = 200;

// A sanitizer's own memory is not the server's.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool memory_counts = false;
#elif defined(__has_feature)
constexpr bool memory_counts = !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool memory_counts = true;
#endif

// What one may cost, with the kilobytes that it reads into. Before the large head that each has
// sent was forgotten, 24 KiB.
constexpr std::size_t bytes_per_idle_connection_max = 16 * 1024;

std::size_t resident_bytes()
{
    std::size_t pages_in_all = 0, resident = 0;
    std::ifstream{"/proc/self/statm"} >> pages_in_all >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// The clients, in a process of their own: each end of a connection takes a descriptor, and memory.
class crowd
{
public:
    /// Before any thread is started: the child is a fork.
    crowd()
    {
        if (::pipe(orders_.data()) != 0 || ::pipe(reports_.data()) != 0) throw std::runtime_error{"no pipe"};
        if ((child_ = ::fork()) < 0) throw std::runtime_error{"no fork"};
        if (child_ != 0) return;
        ::close(orders_[1]);  // or the end of the test would not be the end of the orders
        try {
            serve_orders();
            std::_Exit(0);
        }
        catch (...) {
            std::_Exit(1);
        }
    }
    ~crowd()
    {
        ::close(orders_[1]);
        ::waitpid(child_, nullptr, 0);
        for (int const end : {orders_[0], reports_[0], reports_[1]}) ::close(end);
    }
    crowd(crowd const&) = delete;
    crowd& operator=(crowd const&) = delete;

    /// Has idle_count clients ask once each, and connect before that if this is the first time. How many heard 200.
    std::size_t all_ask(std::uint16_t port)
    {
        if (::write(orders_[1], &port, sizeof port) != sizeof port) return 0;
        pollfd report{reports_[0], POLLIN, 0};
        std::size_t heard = 0;
        if (::poll(&report, 1, 300'000) <= 0 || ::read(reports_[0], &heard, sizeof heard) != sizeof heard) return 0;
        return heard;
    }

private:
    void serve_orders()
    {
        std::vector<raw_client> clients;
        // Near the largest head that there may be, so that a buffer which stays would show.
        auto const bytes = get("/idle", "X: " + std::string(12 * 1024, 'x') + "\r\n");
        for (std::uint16_t port = 0; ::read(orders_[0], &port, sizeof port) == sizeof port;) {
            std::size_t heard = 0;
            for (std::size_t i = 0; i < idle_count; ++i) {
                // No address has ports for all of them beside those that earlier tests have used up.
                auto const from = INADDR_LOOPBACK + 1 + static_cast<std::uint32_t>(i / 2'000);
                if (clients.size() == i) clients.emplace_back(port, 0, from);
                if (clients[i].ask(bytes).status == 200) ++heard;
            }
            if (::write(reports_[1], &heard, sizeof heard) != sizeof heard) return;
        }
    }

    std::array<int, 2> orders_{}, reports_{};
    pid_t child_{-1};
};

/// A client that sends a byte now and then, and is never done before it is told to be.
struct dribbler
{
    raw_client client;
    std::size_t left;  // bytes until only the last is missing
    std::string ending;
};

void dribble(std::vector<dribbler>& slow, std::stop_token const& stop)
{
    for (;;)
        for (auto& each : slow) {
            if (stop.stop_requested()) return;
            if (each.left == 0) continue;
            each.client.send("x");
            --each.left;
        }
}

constexpr std::size_t body_bytes = 2'000;
constexpr std::size_t answer_bytes = 512 * 1024;

std::vector<dribbler> start_dribbling(live_server& on, std::size_t count)
{
    std::vector<dribbler> slow;
    for (std::size_t i = 0; i < count; ++i) {
        slow.push_back({on.connect(), 8'000, "\r\n\r\n"});
        slow.back().client.send("GET /slow-head HTTP/1.1\r\nHost: shop\r\nX: ");
        slow.push_back({on.connect(), body_bytes - 1, "x"});
        slow.back().client.send(
            "POST /slow-body HTTP/1.1\r\nHost: shop\r\nContent-Length: " + std::to_string(body_bytes) + "\r\n\r\n");
    }
    return slow;
}

std::vector<raw_client> start_reading_slowly(live_server& on, std::size_t count)
{
    std::vector<raw_client> readers;
    for (std::size_t i = 0; i < count; ++i) {
        readers.push_back(on.connect(4096));
        readers.back().send(get("/big"));
    }
    return readers;
}

void check_finish(dribbler& each)
{
    each.client.send(std::string(each.left, 'x'));
    auto const answer = each.client.ask(each.ending);
    CHECK(answer.status == 200);
    CHECK(answer.body.find("/slow-") != std::string::npos);
}

}  // namespace

TEST_CASE("10,000 idle connections cost little memory, and a request beside them is answered")
{
    need_descriptors(idle_count + spare_descriptors);
    crowd clients;
    live_server on{{.limits = {.idle_time = 3'600s, .connections_max = idle_count + 1}}};
    CHECK(on.connect().ask(get("/first")).status == 200);  // whatever one request needs for all is there before
    REQUIRE(wait_until([&] { return on.service.load().connections == 0; }));

    auto const before = resident_bytes();
    REQUIRE(clients.all_ask(on.service.port()) == idle_count);
    CHECK(on.service.load() == server_load{.connections = idle_count, .waits = 0, .lanes_busy = 0, .queued = 0});
    auto const each = (resident_bytes() - before) / idle_count;
    MESSAGE("bytes for each idle connection: ", each);
    if (memory_counts) CHECK(each <= bytes_per_idle_connection_max);

    auto good = on.connect();
    for (int i = 0; i < 10; ++i) CHECK(good.ask(get("/good")).body == "GET /good ");
    CHECK_MESSAGE(clients.all_ask(on.service.port()) == idle_count, "each of them is as good as new");
    CHECK(good.ask(get("/good")).status == 200);
}

TEST_CASE("1,200 clients that are slow to send or to read hold no lane, and others are served meanwhile")
{
    need_descriptors(2 * 1'200 + spare_descriptors);
    live_server on{{.limits = {.header_time = 3'600s,
                               .body_time = 3'600s,
                               .write_time = 3'600s,
                               .idle_time = 3'600s,
                               .connections_max = 2'000},
                    .lanes = 1}};
    auto slow = start_dribbling(on, 500);
    auto readers = start_reading_slowly(on, 200);
    REQUIRE(wait_until([&] { return on.handled == 200; }));
    {
        std::jthread const sends{[&](std::stop_token const& stop) { dribble(slow, stop); }};
        std::array<raw_client, 2> good{on.connect(), on.connect()};
        for (int i = 0; i < 200; ++i)
            for (auto& client : good) CHECK(client.ask(post("/good", "now")).body == "POST /good now");
        // Not one of the others is done, and none of them has, or waits for, what the good ones needed.
        CHECK(on.handled == 200 + 400);
        auto load = on.service.load();
        load.body_bytes = 0;  // of the slow ones: whatever has come
        CHECK(load == server_load{.connections = 1'202, .waits = 0, .lanes_busy = 0, .queued = 0});
    }
    for (auto& each : slow) {
        CHECK_FALSE(each.client.has_heard());
        check_finish(each);
    }
    for (auto& reader : readers) CHECK(reader.read_answer().body.size() == answer_bytes);
    CHECK(on.handled == 200 + 400 + 1'000);
}
