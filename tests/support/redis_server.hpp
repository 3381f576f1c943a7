// A real redis-server of the test's own, on a port of its own. A test fails where the program is missing.
#pragma once

#include "redis/link.hpp"
#include "rig/process.hpp"

#include <skald/testing/wait_until.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace skald::test {

class redis_server
{
public:
    /// `settings`: of redis-server, after those that every one here has.
    explicit redis_server(std::vector<std::string> settings = {})
        : process_{{.program = "/usr/bin/env",
                    .arguments = with_usual(port_, std::move(settings)),
                    .inherits_environment = true,
                    .name = "redis-" + std::to_string(port_)}}
    {
        std::signal(SIGPIPE, SIG_IGN);  // as a worker does
        start();
    }

    void start()
    {
        process_.start();
        wait_until_it_answers();
    }
    void kill() { process_.kill(); }
    void stand_still() { process_.kill(SIGSTOP); }
    void go_on() { process_.kill(SIGCONT); }

    std::uint16_t port() const { return port_; }
    std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

    /// The server's answer, an error too.
    redis_detail::reply run(redis_detail::words const& command) const
    {
        auto const until = redis_detail::link::clock::now() + std::chrono::seconds{10};
        redis_detail::link to{{"127.0.0.1", port_}, until};
        return to.ask(command, until);
    }

    std::string text(redis_detail::words const& command) const { return std::string{run(command).text()}; }
    long long number(redis_detail::words const& command) const { return run(command).number(); }

    /// The keys that end like this: ":r" are responses, ":m" marks.
    std::vector<std::string> keys(std::string const& ending) const
    {
        auto const found = run({"KEYS", "skald:*" + ending});
        std::vector<std::string> all;
        for (std::size_t n = 0; n < found.size(); ++n) all.emplace_back(found.text(n));
        return all;
    }

private:
    static std::vector<std::string> with_usual(std::uint16_t port, std::vector<std::string> more)
    {
        std::vector<std::string> all{"redis-server",
                                     "--port",
                                     std::to_string(port),
                                     "--bind",
                                     "127.0.0.1",
                                     "--dir",
                                     std::filesystem::temp_directory_path(),
                                     "--save",
                                     "",
                                     "--appendonly",
                                     "no"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }

    void wait_until_it_answers()
    {
        auto const answers = [this] {
            try {
                return text({"PING"}) == "PONG";
            }
            catch (redis_detail::link_error const&) {
                if (!process_.is_running())
                    throw std::runtime_error{"redis-server did not start (scripts/setup.sh installs it): " +
                                             process_.log()};
                return false;
            }
        };
        if (!testing::wait_until(answers)) throw std::runtime_error{"redis-server does not answer: " + process_.log()};
    }

    std::uint16_t const port_{rig::find_free_port()};
    rig::process process_;
};

}  // namespace skald::test
