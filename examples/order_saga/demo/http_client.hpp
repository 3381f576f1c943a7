// A small HTTP/1.1 client with keep-alive, over one plain socket to a port of this machine.
//
// Sending and receiving are two calls, so that one thread can have the same request under way on two connections.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace order_demo {

struct http_request
{
    std::string_view method;
    std::string target;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
};

struct http_response
{
    int status{};
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;

    /// The first header of that name, whatever its case.
    std::optional<std::string_view> header(std::string_view name) const;
};

/// No answer: refused, reset, timed out, or not HTTP. Nothing is known of what became of the request.
class http_error : public std::runtime_error
{
    using std::runtime_error::runtime_error;
};

/// Threads: one at a time. After an http_error the next send() connects anew.
class http_client
{
public:
    http_client(std::uint16_t port, std::chrono::milliseconds timeout);
    ~http_client();
    http_client(http_client const&) = delete;
    http_client& operator=(http_client const&) = delete;

    void send(http_request const& request);
    http_response receive();
    http_response ask(http_request const& request);

private:
    using deadline = std::chrono::steady_clock::time_point;

    void connect();
    void disconnect() noexcept;
    void wait_for(short events, deadline until) const;
    void read_more(deadline until);
    std::string take(std::size_t size);
    [[noreturn]] void give_up(char const* what, int error = 0);

    std::uint16_t port_;
    std::chrono::milliseconds timeout_;
    int socket_{-1};
    std::string received_;
};

}  // namespace order_demo
