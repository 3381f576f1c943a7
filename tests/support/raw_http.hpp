// An HTTP client that sends the bytes it is told to, well-formed or not, over a plain blocking socket.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace skald::test {

struct raw_answer
{
    int status{0};
    std::string head;  // with the empty line
    std::string body;

    bool has(std::string_view header_line) const
    {
        return head.find("\r\n" + std::string{header_line} + "\r\n") != std::string::npos;
    }
    /// The value of a header as the server spells it, or "".
    std::string value_of(std::string_view name) const
    {
        auto const start = "\r\n" + std::string{name} + ": ";
        auto const at = head.find(start);
        if (at == std::string::npos) return {};
        auto const begin = at + start.size();
        return head.substr(begin, head.find("\r\n", begin) - begin);
    }
};

class raw_client
{
public:
    /// `receive_bytes` bounds what the kernel accepts for a client that doesn't read. `from` is which of the machine's
    /// own addresses, 127.0.0.0/8, the client has: each has its own ports.
    explicit raw_client(std::uint16_t port, int receive_bytes = 0, std::uint32_t from = INADDR_LOOPBACK)
        : socket_{::socket(AF_INET, SOCK_STREAM, 0)}
    {
        // A server that doesn't answer fails the test instead of hanging it.
        timeval const patience{.tv_sec = 30, .tv_usec = 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (receive_bytes > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
        sockaddr_in own{};
        own.sin_family = AF_INET;
        own.sin_addr.s_addr = htonl(from);
        if (from != INADDR_LOOPBACK && ::bind(socket_, reinterpret_cast<sockaddr const*>(&own), sizeof own) != 0)
            throw std::runtime_error{"cannot have the address"};
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(socket_, reinterpret_cast<sockaddr const*>(&to), sizeof to) != 0)
            throw std::runtime_error{std::string{"cannot connect: "} + std::strerror(errno)};
    }
    raw_client(raw_client&& other) noexcept
        : socket_{std::exchange(other.socket_, -1)}, received_{std::move(other.received_)}
    {}
    virtual ~raw_client() { close(); }

    /// False if the server has closed the connection.
    virtual bool send(std::string_view bytes)
    {
        while (!bytes.empty()) {
            auto const sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent < 0) return false;
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
        return true;
    }

    /// The next response; `has_body` is false for the response to a HEAD. Status 0 if the connection ended before it.
    raw_answer read_answer(bool has_body = true)
    {
        raw_answer answer;
        std::size_t end = 0;
        while ((end = received_.find("\r\n\r\n")) == std::string::npos)
            if (!receive()) return answer;
        answer.head = received_.substr(0, end + 4);
        received_.erase(0, end + 4);
        if (!answer.head.starts_with("HTTP/1.1 ")) throw std::runtime_error{"not an answer: " + answer.head};
        answer.status = std::atoi(answer.head.c_str() + 9);

        std::size_t const length = has_body ? std::strtoul(answer.value_of("Content-Length").c_str(), nullptr, 10) : 0;
        while (received_.size() < length)
            if (!receive()) return {};
        answer.body = received_.substr(0, length);
        received_.erase(0, length);
        return answer;
    }

    raw_answer ask(std::string_view bytes)
    {
        send(bytes);
        return read_answer();
    }

    /// Everything until the server closes.
    std::string read_to_end()
    {
        while (receive()) {}
        return std::exchange(received_, {});
    }

    /// Whether the server has closed the connection without sending anything more.
    bool is_closed() { return read_to_end().empty(); }

    void close_sending() { ::shutdown(socket_, SHUT_WR); }
    void close()
    {
        if (socket_ >= 0) ::close(std::exchange(socket_, -1));
    }
    /// Closes with a reset instead of an orderly end.
    void reset()
    {
        linger const at_once{.l_onoff = 1, .l_linger = 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close();
    }

    /// Whether there is something unread, or the end.
    bool has_heard() const
    {
        pollfd heard{socket_, POLLIN, 0};
        return !received_.empty() || ::poll(&heard, 1, 0) > 0;
    }

    int handle() const { return socket_; }

protected:
    virtual bool receive()
    {
        char bytes[16 * 1024];
        auto const size = ::recv(socket_, bytes, sizeof bytes, 0);
        if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) throw std::runtime_error{"no answer in 30 s"};
        if (size <= 0) return false;
        received_.append(bytes, static_cast<std::size_t>(size));
        return true;
    }

private:
    int socket_;

protected:
    std::string received_;
};

/// Waits until one of two clients has something to read, and says which.
inline std::size_t first_with_answer(std::array<raw_client, 2> const& clients)
{
    std::array<pollfd, 2> waits{pollfd{clients[0].handle(), POLLIN, 0}, pollfd{clients[1].handle(), POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), 30'000) <= 0) throw std::runtime_error{"no answer in 30 s"};
    return waits[0].revents != 0 ? 0 : 1;
}

}  // namespace skald::test
