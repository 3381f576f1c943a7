#include "http_client.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

namespace order_demo {
namespace {

constexpr std::size_t head_max = 64 * 1024;
constexpr std::size_t body_max = 1024 * 1024;

char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool equal_ignoring_case(std::string_view a, std::string_view b)
{
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text)
{
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

std::optional<std::size_t> parse_size(std::string_view text)
{
    std::size_t value{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string serialise(http_request const& request)
{
    std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\n", request.method, request.target);
    for (auto const& [name, value] : request.headers) text += fmt::format("{}: {}\r\n", name, value);
    if (!request.body.empty() || request.method == "POST")
        text += fmt::format("Content-Length: {}\r\n", request.body.size());
    return text + "\r\n" + request.body;
}

/// The status line and the headers. An answer that is not HTTP has the status 0.
http_response parse_head(std::string_view head)
{
    http_response response;
    if (!head.starts_with("HTTP/1.1 ") || head.size() < 12) return response;
    response.status = static_cast<int>(parse_size(head.substr(9, 3)).value_or(0));
    while (true) {
        auto const end_of_line = head.find("\r\n");
        if (end_of_line == std::string_view::npos) return response;
        head.remove_prefix(end_of_line + 2);
        auto const line = head.substr(0, head.find("\r\n"));
        if (auto const colon = line.find(':'); colon != std::string_view::npos)
            response.headers.emplace_back(line.substr(0, colon), trimmed(line.substr(colon + 1)));
    }
}

}  // namespace

std::optional<std::string_view> http_response::header(std::string_view name) const
{
    for (auto const& [known, value] : headers)
        if (equal_ignoring_case(known, name)) return value;
    return std::nullopt;
}

http_client::http_client(std::uint16_t port, std::chrono::milliseconds timeout) : port_{port}, timeout_{timeout} {}

http_client::~http_client()
{
    disconnect();
}

void http_client::send(http_request const& request)
{
    if (socket_ < 0) connect();
    auto const until = std::chrono::steady_clock::now() + timeout_;
    std::string const text = serialise(request);
    for (std::size_t sent = 0; sent < text.size();) {
        wait_for(POLLOUT, until);
        auto const size = ::send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size > 0) sent += static_cast<std::size_t>(size);
        else if (errno != EAGAIN && errno != EINTR) give_up("sending failed", errno);
    }
}

http_response http_client::receive()
{
    if (socket_ < 0) throw http_error("no request is under way on this connection");
    auto const until = std::chrono::steady_clock::now() + timeout_;
    auto end = std::string::npos;
    while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
        if (received_.size() > head_max) give_up("the answer's headers are too long");
        read_more(until);
    }
    auto response = parse_head(take(end + 4));
    if (response.status == 0) give_up("the answer is not HTTP/1.1");
    auto const size = parse_size(response.header("Content-Length").value_or(response.status == 204 ? "0" : ""));
    if (!size || *size > body_max) give_up("the answer has no Content-Length, or one above 1 MiB");
    while (received_.size() < *size) read_more(until);
    response.body = take(*size);
    if (equal_ignoring_case(response.header("Connection").value_or(""), "close")) disconnect();
    return response;
}

http_response http_client::ask(http_request const& request)
{
    send(request);
    return receive();
}

void http_client::connect()
{
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0) give_up("no socket", errno);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
        give_up("connecting failed", errno);
    int const on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void http_client::disconnect() noexcept
{
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
    received_.clear();
}

void http_client::wait_for(short events, deadline until) const
{
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    pollfd what{socket_, events, 0};
    ::poll(&what, 1, static_cast<int>(std::max<decltype(left)>(left, 0)));
}

void http_client::read_more(deadline until)
{
    char buffer[8 * 1024];
    wait_for(POLLIN, until);
    auto const size = ::recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (size > 0) received_.append(buffer, static_cast<std::size_t>(size));
    else if (size == 0) give_up("the service closed the connection");
    else if (errno != EAGAIN && errno != EINTR) give_up("receiving failed", errno);
    else if (std::chrono::steady_clock::now() >= until) give_up("no answer in time");
}

std::string http_client::take(std::size_t size)
{
    std::string taken = received_.substr(0, size);
    received_.erase(0, size);
    return taken;
}

void http_client::give_up(char const* what, int error)
{
    disconnect();
    throw http_error(error == 0 ? std::string{what} : fmt::format("{}: {}", what, std::strerror(error)));
}

}  // namespace order_demo
