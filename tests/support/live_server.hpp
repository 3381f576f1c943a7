// A live server whose handler misbehaves on demand, for the tests that talk to it over sockets.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "http/server.hpp"
#include "support/raw_http.hpp"

namespace skald::http_test {

using namespace std::chrono_literals;
using http::request;
using http::response;
using http::server_options;
using testing::raw_client;

/// Keeps the events and lets a test wait for one.
class event_log final : public core::logger
{
public:
    void write(core::severity, std::string_view event, std::initializer_list<core::log_field>) noexcept override
    {
        std::lock_guard const lock{mutex_};
        events_.emplace_back(event);
        changed_.notify_all();
    }
    bool has(std::string_view event)
    {
        std::lock_guard const lock{mutex_};
        return std::ranges::find(events_, event) != events_.end();
    }
    bool wait_for(std::string_view event)
    {
        std::unique_lock lock{mutex_};
        return changed_.wait_for(lock, 30s, [&] {
            for (auto const& seen : events_)
                if (seen == event) return true;
            return false;
        });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::string> events_;
};

/// Holds handlers at "/hold" until it is opened, and tells how many are there.
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
    std::atomic<bool> ready{false};  // until then, "/wait" is better waited for
    http::server service;

    explicit live_server(server_options options = {})
        : service{on_free_port(options), [this](request& message, std::size_t) { return handle(message); }, log,
                  [](request const& message) -> std::optional<response> {
                      if (message.path == "/livez") return text("alive");
                      if (message.path == "/livez/throws") throw std::runtime_error{"secret"};
                      return {};
                  }}
    {
        service.start();
    }
    // A test that failed half-way must not leave a handler waiting for a gate that nobody opens.
    ~live_server() { held.open(); }

    http::reply handle(request const& message)
    {
        ++handled;
        if (message.path == "/wait" && !ready) return {text("not yet"), 600s};
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

}  // namespace skald::http_test
