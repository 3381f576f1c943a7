#include "server.hpp"

#include "application.hpp"
#include "http/listen_address.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>
#include <httplib.h>

#include <csignal>
#include <semaphore>
#include <thread>

namespace skald::console {
namespace {

constexpr std::size_t body_bytes_max = 64 * 1024;
constexpr std::chrono::seconds patience{5};  // for a client that sends or reads slowly
constexpr int waiting_max = 64;              // connections for which there is no thread yet

// A pool that accepts no further connection while many wait: those stay with the system, which bounds them too.
class bounded_pool final : public httplib::ThreadPool
{
public:
    explicit bounded_pool(int threads) : ThreadPool{static_cast<std::size_t>(threads)} {}

    void enqueue(std::function<void()> job) override
    {
        room_.acquire();
        ThreadPool::enqueue([this, job = std::move(job)] {
            room_.release();
            job();
        });
    }

private:
    std::counting_semaphore<waiting_max> room_{waiting_max};
};

request read(httplib::Request const& from)
{
    request asked;
    asked.method = from.method == "HEAD" ? "GET" : from.method;
    asked.path = from.path;
    // The library puts a form's fields and a query's into one map, and what a form says must not come from a link.
    bool const has_query = from.target.find('?') != std::string::npos;
    if (from.method != "POST") asked.query = from.params;
    else if (!has_query) asked.form = from.params;
    asked.header = [&from](std::string const& name) { return from.get_header_value(name); };
    return asked;
}

void write(response const& made, httplib::Response& to)
{
    to.status = made.status;
    for (auto const& [name, value] : made.headers) to.set_header(name, value);
    if (made.status != 304) to.set_content(made.body, made.content_type);
}

void set_limits(httplib::Server& server, settings const& given)
{
    server.new_task_queue = [threads = given.threads] { return new bounded_pool{threads}; };
    server.set_payload_max_length(body_bytes_max);
    server.set_read_timeout(patience);
    server.set_write_timeout(patience);
    server.set_keep_alive_timeout(1);
    server.set_keep_alive_max_count(100);
}

// Waits for a signal that all threads block, so that the server is stopped by a thread and not by a handler.
class stopping
{
public:
    stopping()
    {
        sigemptyset(&signals_);
        for (int const one : {SIGINT, SIGTERM}) sigaddset(&signals_, one);
        pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    }
    void wait() const
    {
        int got{};
        sigwait(&signals_, &got);
    }

private:
    sigset_t signals_{};
};

}  // namespace

void serve(settings const& given, std::function<void(std::string const& address)> const& started)
{
    check(given);
    application const console{given};
    auto address = http::parse_listen_address(given.listen, "--listen");

    stopping const until;
    httplib::Server server;
    set_limits(server, given);
    auto const answer = [&](httplib::Request const& from, httplib::Response& to) {
        write(console.answer(read(from)), to);
    };
    server.Get(".*", answer);
    server.Post(".*", answer);
    if (address.port == 0) {
        auto const port = server.bind_to_any_port(address.host);
        if (port < 0) throw configuration_error{"--listen " + given.listen + ": can't listen there"};
        address.port = static_cast<std::uint16_t>(port);
    }
    else if (!server.bind_to_port(address.host, address.port)) {
        throw configuration_error{"--listen " + given.listen + ": can't listen there: is something else using it?"};
    }
    std::thread serving{[&] { server.listen_after_bind(); }};
    started("http://" + http::to_string(address) + "/");
    until.wait();
    server.stop();
    serving.join();
}

}  // namespace skald::console
