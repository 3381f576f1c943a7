// A Redis that fails over: two servers and a sentinel, in a folder of their own.
#pragma once

#include "redis/link.hpp"
#include "rig/process.hpp"

#include <skald/testing/wait_until.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

namespace skald::test {

/// Threads: one, but for url().
class redis_nodes
{
public:
    redis_nodes()
    {
        auto pattern = (std::filesystem::temp_directory_path() / "skald-redis.XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"can't make a folder: " + pattern};
        folder_ = pattern;
        for (std::size_t n = 0; n < nodes_.size(); ++n) start(n, n == 0 ? std::nullopt : std::optional{ports_[0]});
        std::ofstream{folder_ / "sentinel.conf"}
            << "port " << sentinel_port_ << "\nbind 127.0.0.1\ndir " << folder_.string()
            << "\nsentinel monitor shop 127.0.0.1 " << ports_[0]
            << " 1\nsentinel down-after-milliseconds shop 500\nsentinel failover-timeout shop 3000\n";
        sentinel_ = std::make_unique<rig::process>(
            rig::process_settings{.program = "/usr/bin/env",
                                  .arguments = {"redis-server", (folder_ / "sentinel.conf").string(), "--sentinel"},
                                  .inherits_environment = true,
                                  .name = "sentinel"});
        sentinel_->start();
        // It learns of the second one from the first.
        wait("the sentinel", [&] { return ask(sentinel_port_, {"SENTINEL", "REPLICAS", "shop"}).size() == 1; });
    }

    ~redis_nodes()
    {
        sentinel_.reset();
        for (auto& one : nodes_) one.reset();
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }

    std::string url() const { return "redis-sentinel://127.0.0.1:" + std::to_string(sentinel_port_) + "/shop"; }

    /// The number of the one that the sentinel names.
    std::size_t master() const
    {
        auto const found = ask(sentinel_port_, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop"});
        return found.text(1) == std::to_string(ports_[1]) ? 1 : 0;
    }

    rig::process& node(std::size_t number) { return *nodes_.at(number); }

    /// Throws link_error.
    redis_detail::reply run(std::size_t number, redis_detail::words const& command) const
    {
        return ask(ports_.at(number), command);
    }

    /// The one that is a replica stops to follow, `meanwhile` is written to the other one and lost with it, and the
    /// replica takes over. Returns how many keys were lost.
    template <class Meanwhile>
    long long fail_over(Meanwhile meanwhile)
    {
        auto const old = master(), next = 1 - old;
        run(next, {"REPLICAOF", "127.0.0.1", "1"});
        meanwhile();
        auto const before = run(old, {"DBSIZE"}).number();
        auto const after = run(next, {"DBSIZE"}).number();
        nodes_.at(old)->kill();
        wait("a failover", [&] { return master() == next && run(next, {"ROLE"}).text(0) == "master"; });
        start(old, ports_.at(next));
        return std::max(before - after, 0LL);
    }

    /// Kills the one that is in charge and starts it again, empty: it may be demoted meanwhile.
    void lose_all()
    {
        auto const which = master();
        nodes_.at(which)->kill();
        start(which, std::nullopt);
    }

private:
    void start(std::size_t number, std::optional<std::uint16_t> follows)
    {
        rig::process_settings settings{.program = "/usr/bin/env",
                                       .arguments = {"redis-server", "--port", std::to_string(ports_.at(number)),
                                                     "--bind", "127.0.0.1", "--dir", folder_.string(), "--save", ""},
                                       .inherits_environment = true,
                                       .name = "redis " + std::to_string(number)};
        if (follows)
            settings.arguments.insert(settings.arguments.end(),
                                      {"--replicaof", "127.0.0.1 " + std::to_string(*follows)});
        nodes_.at(number) = std::make_unique<rig::process>(std::move(settings));
        nodes_.at(number)->start();
        wait("redis-server (scripts/setup.sh installs it)", [&] { return run(number, {"PING"}).text() == "PONG"; });
    }

    static redis_detail::reply ask(std::uint16_t port, redis_detail::words const& command)
    {
        auto const until = redis_detail::link::clock::now() + std::chrono::seconds{3};
        redis_detail::link to{{"127.0.0.1", port}, until};
        return to.ask(command, until);
    }

    template <class Condition>
    static void wait(std::string const& what, Condition holds)
    {
        auto const is_there = [&] {
            try {
                return holds();
            }
            catch (redis_detail::link_error const&) {
                return false;
            }
        };
        if (!testing::wait_until(is_there)) throw std::runtime_error{what + " took longer than 30 s"};
    }

    std::filesystem::path folder_;
    std::array<std::uint16_t, 2> ports_{rig::find_free_port(), rig::find_free_port()};
    std::uint16_t sentinel_port_{rig::find_free_port()};
    std::array<std::unique_ptr<rig::process>, 2> nodes_;
    std::unique_ptr<rig::process> sentinel_;
};

}  // namespace skald::test
