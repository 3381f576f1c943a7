// The bytes of one connection, plain or over TLS: the session does not care which.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace skald::http {

/// What is called when an operation completes: a member function of an object that lives at least until then. There are
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

/// Threads:  the I/O thread only. One operation at a time; close() at any time, which ends the one in progress.
/// Lifetime: the owner of a completion keeps the stream and the buffers alive.
/// A completion is never called from within the function that it was passed to.
class stream
{
public:
    using error_code = boost::system::error_code;

    explicit stream(boost::asio::ip::tcp::socket socket) : socket_{std::move(socket)} {}
    virtual ~stream() = default;
    stream(stream const&) = delete;
    stream& operator=(stream const&) = delete;

    /// The handshake, before anything else. True if there is nothing to wait for: then `done` is not called.
    virtual bool open(completion done) = 0;
    /// Reads some bytes, at least one.
    virtual void read(boost::asio::mutable_buffer into, completion done) = 0;
    /// Writes all of them.
    virtual void write(std::array<boost::asio::const_buffer, 2> bytes, completion done) = 0;
    /// Signals the end of the stream, if the layer above TCP can. True, as with open(), if that was done at once.
    virtual bool end(completion done) = 0;
    /// Closes the socket.
    virtual void close() = 0;

    /// The underlying socket: to cancel, to half-close, and to drain unread bytes.
    boost::asio::ip::tcp::socket& socket() { return socket_; }

private:
    boost::asio::ip::tcp::socket socket_;
};

std::unique_ptr<stream> plain_stream(boost::asio::ip::tcp::socket socket);

}  // namespace skald::http
