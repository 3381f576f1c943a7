// A TCP proxy between a program and a server, to break what is between them: cut it, or let bytes pass in one direction
// only. One thread, one poll loop.
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace skald::test {

class tcp_proxy
{
public:
    /// `listens_on`: 0: a port that is free.
    tcp_proxy(std::string host, int port, int listens_on = 0) : host_{std::move(host)}, upstream_port_{port}
    {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int const yes = 1;
        ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        sockaddr_in any{};
        any.sin_family = AF_INET;
        any.sin_port = htons(static_cast<std::uint16_t>(listens_on));
        any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof any;
        auto* const address = reinterpret_cast<sockaddr*>(&any);
        if (::bind(listener_, address, size) != 0 || ::listen(listener_, 64) != 0 ||
            ::getsockname(listener_, address, &size) != 0)
            throw std::runtime_error{"the test's proxy can't listen"};
        port_ = ntohs(any.sin_port);
        thread_ = std::thread{[this] { run(); }};
    }
    ~tcp_proxy()
    {
        set(ending_, true);
        thread_.join();
        ::close(listener_);
        ::close(wake_);
    }
    tcp_proxy(tcp_proxy const&) = delete;
    tcp_proxy& operator=(tcp_proxy const&) = delete;

    int port() const { return port_; }

    /// Every connection ends, and every new one at once.
    void cut() { set(cut_, true); }
    void restore() { set(cut_, false); }

    /// Nothing passes to the server, or back from it. The connections stay.
    void hold_requests(bool hold) { set(hold_requests_, hold); }
    void hold_answers(bool hold) { set(hold_answers_, hold); }

    /// Every connection ends as if its peer had reset it; new ones are accepted.
    void cut_once() { set(cut_once_, true); }

    std::uint64_t bytes_requested() const { return bytes_requested_; }

private:
    struct link
    {
        std::array<int, 2> ends{-1, -1};     // client, server
        std::array<std::string, 2> pending;  // what came from one end and the other has not accepted yet
        ~link()
        {
            for (int const end : ends)
                if (end >= 0) ::close(end);
        }
    };

    void set(std::atomic<bool>& flag, bool value)
    {
        flag = value;
        ::eventfd_write(wake_, 1);
    }

    int connect_upstream() const
    {
        addrinfo hints{};
        hints.ai_socktype = SOCK_STREAM;
        addrinfo* found = nullptr;
        if (::getaddrinfo(host_.c_str(), std::to_string(upstream_port_).c_str(), &hints, &found) != 0) return -1;
        int connected = -1;
        for (auto* one = found; one && connected < 0; one = one->ai_next) {
            connected = ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (::connect(connected, one->ai_addr, one->ai_addrlen) == 0) break;
            ::close(connected);
            connected = -1;
        }
        ::freeaddrinfo(found);
        return connected;
    }

    void accept_one()
    {
        int const client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) return;
        auto& made = links_.emplace_back();
        made.ends[0] = client;
        if (!cut_) made.ends[1] = connect_upstream();
        if (made.ends[1] < 0) links_.pop_back();
    }

    bool held(std::size_t from) const { return from == 0 ? hold_requests_ : hold_answers_; }

    /// Sends as much as the other end accepts, and never waits for it: one stuck connection must not stop the others.
    /// False if the link is over.
    static bool flush(link& over, std::size_t from)
    {
        auto& pending = over.pending[from];
        while (!pending.empty()) {
            auto const sent = ::send(over.ends[1 - from], pending.data(), pending.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent < 0) return errno == EAGAIN;
            pending.erase(0, static_cast<std::size_t>(sent));
        }
        return true;
    }

    /// False if the link is over.
    bool forward(link& over, std::size_t from)
    {
        std::array<char, 65536> bytes;
        auto const count = ::recv(over.ends[from], bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (count < 0) return errno == EAGAIN;
        if (count == 0) return false;
        if (from == 0) bytes_requested_ += static_cast<std::uint64_t>(count);
        over.pending[from].append(bytes.data(), static_cast<std::size_t>(count));
        return flush(over, from);
    }

    pollfd interest(link const& in, std::size_t end) const
    {
        short events = 0;
        if (in.pending[end].empty() && !held(end)) events |= POLLIN;
        if (!in.pending[1 - end].empty()) events |= POLLOUT;
        // A negative descriptor is not polled, not even for its end.
        return {events == 0 ? -1 : in.ends[end], events, 0};
    }

    bool serve(link& one, std::size_t end, pollfd const& polled)
    {
        if (polled.revents == 0) return true;
        if ((polled.events & POLLOUT) != 0 && !flush(one, 1 - end)) return false;
        return (polled.events & POLLIN) == 0 || held(end) || forward(one, end);
    }

    void run()
    {
        while (!ending_) {
            if (cut_ || cut_once_.exchange(false)) links_.clear();
            std::vector<pollfd> polled{{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
            for (auto const& one : links_)
                for (std::size_t end : {0u, 1u}) polled.push_back(interest(one, end));
            ::poll(polled.data(), polled.size(), -1);
            eventfd_t ignored{};
            if (polled[0].revents != 0) ::eventfd_read(wake_, &ignored);
            std::size_t at = 2;
            for (auto one = links_.begin(); one != links_.end(); at += 2) {
                bool const alive = serve(*one, 0, polled[at]) && serve(*one, 1, polled[at + 1]);
                one = alive ? std::next(one) : links_.erase(one);
            }
            if (polled[1].revents != 0) accept_one();
        }
    }

    std::string host_;
    int upstream_port_;
    int port_{};
    int listener_{-1};
    int const wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::list<link> links_;  // used by the thread only
    std::atomic<bool> ending_{};
    std::atomic<bool> cut_{};
    std::atomic<bool> cut_once_{};
    std::atomic<bool> hold_requests_{};
    std::atomic<bool> hold_answers_{};
    std::atomic<std::uint64_t> bytes_requested_{};
    std::thread thread_;
};

}  // namespace skald::test
