#include "storm.hpp"

#include <array>
#include <thread>
#include <utility>

namespace skald::test {
namespace {

using namespace std::chrono_literals;

// For the length of a fault, and between two of them.
void last(std::chrono::milliseconds length)
{
    std::this_thread::sleep_for(length);
}

std::vector<std::string> some_keys(redis_nodes const& redis, std::string const& ending)
{
    auto const found = redis.run(redis.master(), {"SCAN", "0", "MATCH", "skald:*" + ending, "COUNT", "2000"});
    std::vector<std::string> keys;
    for (std::size_t n = 0; n < found.size_of(1); ++n) keys.emplace_back(found.text_of(1, n));
    return keys;
}

}  // namespace

// A failover takes seconds, so there are few.
void storm::strike()
{
    using fault = void (storm::*)();
    static constexpr std::array<std::pair<char const*, fault>, 10> all{{
        {"FLUSHALL", &storm::flush},
        {"SCRIPT FLUSH", &storm::forget_scripts},
        {"Redis stands still", &storm::stand_still},
        {"Redis restarted, empty", &storm::lose_all},
        {"holder stopped past its mark's time", &storm::stop_holder},
        {"holder killed", &storm::kill_holder},
        {"entries damaged, cut, swapped", &storm::damage},
        {"eviction", &storm::evict},
        {"Redis' clock jumps", &storm::jump_clock},
        {"new epoch", &storm::begin_epoch},
    }};
    auto const& [name, what] = all.at(random_() % all.size());
    try {
        if (++strikes_ % 12 == 6) {
            fail_over();
            ++counts_["failover that loses writes"];
        }
        else {
            (this->*what)();
            ++counts_[name];
        }
    }
    catch (redis_detail::link_error const&) {
        // It is failing over by itself, after it stood still or was restarted.
        ++counts_["Redis away"];
    }
    last(400ms);  // so that Redis is in use again
}

void storm::flush()
{
    redis_.run(redis_.master(), {"FLUSHALL"});
}

void storm::forget_scripts()
{
    redis_.run(redis_.master(), {"SCRIPT", "FLUSH"});
}

void storm::stand_still()
{
    auto& node = redis_.node(redis_.master());
    node.kill(SIGSTOP);
    last(300ms);
    node.kill(SIGCONT);
}

void storm::lose_all()
{
    redis_.lose_all();
}

void storm::fail_over()
{
    keys_lost_ += redis_.fail_over([] { last(300ms); });
}

void storm::stop_holder()
{
    auto& one = *shops_.at(random_() % shops_.size());
    one.kill(SIGSTOP);
    last(700ms);
    one.kill(SIGCONT);
}

void storm::kill_holder()
{
    shops_.at(random_() % shops_.size())->kill_and_restart();
}

void storm::damage()
{
    auto const keys = some_keys(redis_, ":r");
    auto const master = redis_.master();
    for (std::size_t n = 0; n + 1 < keys.size(); n += 2) {
        std::string bytes{redis_.run(master, {"GET", keys[n]}).text()};
        if (bytes.size() < 60) continue;
        if (n % 3 == 0) bytes[random_() % bytes.size()] ^= 1;
        else if (n % 3 == 1) bytes.resize(bytes.size() - 1 - random_() % 40);
        else bytes = redis_.run(master, {"GET", keys[n + 1]}).text();
        redis_.run(master, {"SET", keys[n], bytes});
    }
}

void storm::evict()
{
    auto const master = redis_.master();
    redis_.run(master, {"CONFIG", "SET", "maxmemory-policy", "allkeys-random"});
    redis_.run(master, {"CONFIG", "SET", "maxmemory", "1200000"});
    last(300ms);
    redis_.run(master, {"CONFIG", "SET", "maxmemory", "0"});
}

// Forward: everything has expired. Back: nothing does for long.
void storm::jump_clock()
{
    auto const master = redis_.master();
    bool const is_forward = random_() % 2 == 0;
    for (auto const* ending : {":r", ":m"})
        for (auto const& key : some_keys(redis_, ending))
            redis_.run(master, {"PEXPIRE", key, is_forward ? "1" : "100000000"});
}

void storm::begin_epoch()
{
    db_.run("SELECT skald.begin_epoch()");
}

}  // namespace skald::test
