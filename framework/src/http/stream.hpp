// The bytes of one connection, plain or through TLS: the session doesn't care which.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace skald::http {

/// What happens when an operation is done: a member function of an object, which lives at least until then. There are
/// two for each request; a std::function would allocate for each.
class completion
{
public:
    using error_code = boost::system::error_code;

    /// Calls (owner->*member)(error, size).
    template <auto member, class Owner>
    static completion of(std::shared_ptr<Owner> owner)
    {
        return {std::move(owner),
                [](void* at, error_code error, std::size_t size) { (static_cast<Owner*>(at)->*member)(error, size); }};
    }

    void operator()(error_code error, std::size_t size) const { call_(owner_.get(), error, size); }

private:
    using function = void (*)(void* owner, error_code error, std::size_t size);

    completion(std::shared_ptr<void> owner, function call) : owner_{std::move(owner)}, call_{call} {}

    std::shared_ptr<void> owner_;
    function call_;
};

/// Threads:  the I/O thread only. One operation at a time; close() at any time, which ends the one that is under way.
/// Lifetime: the owner of a completion keeps the stream, and what is read into or written from.
/// A completion is never called from within the function that was given it.
class stream
{
public:
    using error_code = boost::system::error_code;

    explicit stream(boost::asio::ip::tcp::socket socket) : socket_{std::move(socket)} {}
    virtual ~stream() = default;
    stream(stream const&) = delete;
    stream& operator=(stream const&) = delete;

    /// The handshake, before anything else. True where there is nothing to wait for: then `done` is not called.
    virtual bool open(completion done) = 0;
    /// Some bytes, one at least.
    virtual void read(boost::asio::mutable_buffer into, completion done) = 0;
    /// All of them.
    virtual void write(std::array<boost::asio::const_buffer, 2> bytes, completion done) = 0;
    /// Says that no more comes, as far as this is said above TCP. True, as with open(), where that was done at once.
    virtual bool end(completion done) = 0;
    /// Closes the socket.
    virtual void close() = 0;

    /// The socket below: to be cancelled, to be half closed, and to be read empty when nobody wants to know of what.
    boost::asio::ip::tcp::socket& socket() { return socket_; }

private:
    boost::asio::ip::tcp::socket socket_;
};

std::unique_ptr<stream> plain_stream(boost::asio::ip::tcp::socket socket);

}  // namespace skald::http
