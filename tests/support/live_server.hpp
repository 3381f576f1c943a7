// A live server whose handler misbehaves on demand, for the tests that talk to it over sockets.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "http/server.hpp"
#include "support/event_log.hpp"
#include "support/raw_http.hpp"

namespace skald::test {

using namespace std::chrono_literals;
using http::received;
using http::request;
using http::response;
using http::server_options;

/// Holds handlers at "/hold" until it is opened, and counts them.
class gate
{
public:
    void pass()
    {
        std::unique_lock lock{mutex_};
        ++waiting_;
        changed_.notify_all();
        changed_.wait(lock, [&] { return is_open_; });
    }
    void wait_for(std::size_t count)
    {
        std::unique_lock lock{mutex_};
        changed_.wait(lock, [&] { return waiting_ >= count; });
    }
    void open()
    {
        std::lock_guard const lock{mutex_};
        is_open_ = true;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t waiting_{0};
    bool is_open_{false};
};

inline response text(std::string body)
{
    return {.status = 200, .content_type = "text/plain", .headers = {}, .body = std::move(body)};
}

inline server_options on_free_port(server_options options = {})
{
    options.listen = "127.0.0.1:0";
    return options;
}

/// A server whose handler echoes, except at the paths that misbehave.
struct live_server
{
    event_log log;
    gate held;
    std::atomic<int> handled{0};
    std::atomic<int> handled_now{0};
    std::atomic<bool> ready{false};  // until then, the response to "/wait" says to wait
    http::server service;

    explicit live_server(server_options options = {})
        : service{on_free_port(options), [this](received& asked, std::size_t) { return handle(asked.message); }, log,
                  [this](received& asked) { return handle_now(asked); }}
    {
        service.start();
    }
    // A test that failed half-way must not leave a handler waiting for a gate that no one opens.
    ~live_server() { held.open(); }

    std::optional<http::reply> handle_now(received& asked)
    {
        auto const& path = asked.message.path;
        if (path == "/livez") return text("alive");
        if (path == "/livez/hold") held.pass();
        if (path == "/livez/throws") throw std::runtime_error{"secret"};
        if (path != "/counted") return {};
        // How often it was asked about this request: on a lane once, then here until it is ready.
        auto const times = asked.notes.has_value() ? std::any_cast<int>(asked.notes) + 1 : 1;
        asked.notes = times;
        ++handled_now;
        if (times == 1) return {};
        return ready ? http::reply{text("asked again")} : http::reply{text("not yet"), 600s};
    }

    http::reply handle(request const& message)
    {
        ++handled;
        if ((message.path == "/wait" || message.path == "/counted") && !ready) return {text("not yet"), 600s};
        if (message.path == "/hold") held.pass();
        if (message.path == "/throws") throw std::runtime_error{"password=secret"};
        if (message.path == "/splits") {
            auto answer = text("x");
            answer.headers = {{"Location", "/a\r\nSet-Cookie: stolen=1"}};
            return answer;
        }
        if (message.path == "/nothing")
            return response{.status = 204, .content_type = "x/y", .headers = {}, .body = "ignored"};
        if (message.path == "/big") return text(std::string(512 * 1024, 'x'));
        if (message.path == "/large") return text(std::string(32 * 1024 * 1024, 'x'));
        return text(message.method + ' ' + message.path + ' ' + message.body);
    }

    raw_client connect(int receive_bytes = 0) { return raw_client{service.port(), receive_bytes}; }
};

inline std::string get(std::string const& path, std::string const& fields = {})
{
    return "GET " + path + " HTTP/1.1\r\nHost: shop\r\n" + fields + "\r\n";
}

inline std::string post(std::string const& path, std::string const& body, std::string const& fields = {})
{
    return "POST " + path + " HTTP/1.1\r\nHost: shop\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
}

/// Eight clients at once, each with its own mark in every request, and each request larger than the one before.
template <class Server>
void check_that_each_client_gets_its_own_answers(Server& on, std::size_t growth)
{
    constexpr int clients = 8;
    constexpr int requests = 50;
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int c = 0; c < clients; ++c)
        threads.emplace_back([&, c] {
            auto client = on.connect();
            for (std::size_t i = 0; i < requests; ++i) {
                auto const mark = std::to_string(c) + '-' + std::to_string(i) + std::string(i * growth, 'm');
                if (client.ask(post("/echo", mark)).body == "POST /echo " + mark) ++right;
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(right == clients * requests);
}

/// A request that does not end within the drain is cut off, and the drain reports it.
template <class Server>
void check_that_drain_cuts_off_what_is_late(Server& on)
{
    auto running = on.connect();
    running.send(get("/hold"));
    on.held.wait_for(1);
    CHECK_FALSE(on.service.drain(std::chrono::milliseconds{1}));
    CHECK(running.is_closed());
    on.held.open();
}

}  // namespace skald::test
