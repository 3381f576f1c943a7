#include "http/tls_stream.hpp"

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "core/assert.hpp"

namespace skald::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t record_bytes_max = SSL3_RT_MAX_PLAIN_LENGTH;

struct ssl_deleter
{
    void operator()(SSL* ssl) const { SSL_free(ssl); }
};

class encrypted final : public stream
{
public:
    encrypted(tcp::socket connected, SSL_CTX& context) : stream{std::move(connected)}, ssl_{SSL_new(&context)}
    {
        socket().native_non_blocking(true);
        if (!ssl_ || SSL_set_fd(ssl_.get(), socket().native_handle()) != 1) throw std::runtime_error{"TLS: no memory"};
    }

    bool open(completion done) override
    {
        go(&encrypted::accept, std::move(done));
        return false;
    }
    void read(asio::mutable_buffer into, completion done) override
    {
        into_ = into;
        go(&encrypted::read_some, std::move(done));
    }
    void write(std::array<asio::const_buffer, 2> bytes, completion done) override
    {
        SKALD_ASSERT(!has_unsent());  // one write at a time: the bytes of two would be interleaved
        unsent_ = bytes;
        go(&encrypted::write_record, std::move(done));
    }
    bool end(completion done) override;
    void close() override;

private:
    enum class progress { done, more, needs_read, needs_write, failed };

    /// One attempt: 1 if OpenSSL is done, otherwise a value for SSL_get_error().
    using operation = int (encrypted::*)();

    int accept() { return SSL_accept(ssl_.get()); }
    int read_some() { return SSL_read_ex(ssl_.get(), into_.data(), into_.size(), &read_bytes_); }
    int write_record();
    int say_end() { return SSL_shutdown(ssl_.get()) < 0 ? -1 : 1; }  // 0: the peer has not sent its close_notify yet

    void go(operation what, completion done, bool may_call = false);
    void wait(tcp::socket::wait_type until, operation what, completion done);
    progress make(operation what);
    progress check_result(int result);
    void take_record();
    bool has_unsent() const { return !record_.empty() || unsent_[0].size() + unsent_[1].size() > 0; }
    bool may_say_end() const;

    std::unique_ptr<SSL, ssl_deleter> ssl_;
    asio::mutable_buffer into_;
    std::size_t read_bytes_{0};
    std::array<asio::const_buffer, 2> unsent_;
    std::string record_;     // being written: OpenSSL must get the same bytes again until it accepts them
    error_code error_;       // of the last attempt
    bool is_broken_{false};  // nothing more can be sent through TLS
};

bool encrypted::end(completion done)
{
    if (!may_say_end()) return true;
    auto const state = make(&encrypted::say_end);
    if (state != progress::needs_write) return true;
    wait(tcp::socket::wait_write, &encrypted::say_end, std::move(done));
    return false;
}

/// Sends close_notify if that takes no time, so that the peer knows that nothing was truncated.
void encrypted::close()
{
    if (may_say_end()) make(&encrypted::say_end);
    error_code ignored;
    socket().close(ignored);
    // OpenSSL must not be called again: its descriptor number may belong to another connection by now.
    error_ = asio::error::operation_aborted;
    is_broken_ = true;
}

bool encrypted::may_say_end() const
{
    bool const was_said = (SSL_get_shutdown(ssl_.get()) & SSL_SENT_SHUTDOWN) != 0;
    return !is_broken_ && !was_said && !has_unsent() && SSL_is_init_finished(ssl_.get());
}

/// Tries now, and again whenever the socket is ready. `may_call`: called from the event loop, not by the stream's user.
void encrypted::go(operation what, completion done, bool may_call)
{
    auto const state = make(what);
    if (state == progress::needs_read) return wait(tcp::socket::wait_read, what, std::move(done));
    if (state == progress::needs_write) return wait(tcp::socket::wait_write, what, std::move(done));

    auto const executor = socket().get_executor();
    if (state == progress::more)  // let other connections run first
        return asio::post(executor,
                          [this, what, done = std::move(done)]() mutable { go(what, std::move(done), true); });
    if (may_call) return done(error_, read_bytes_);
    asio::post(executor, [done = std::move(done), error = error_, size = read_bytes_] { done(error, size); });
}

void encrypted::wait(tcp::socket::wait_type until, operation what, completion done)
{
    socket().async_wait(until, [this, what, done = std::move(done)](error_code error) mutable {
        error ? done(error, 0) : go(what, std::move(done), true);
    });
}

encrypted::progress encrypted::make(operation what)
{
    if (is_broken_) return progress::failed;
    read_bytes_ = 0;
    error_ = {};
    ERR_clear_error();
    auto const state = check_result((this->*what)());
    bool const is_writing = what == &encrypted::write_record;
    return state == progress::done && is_writing && has_unsent() ? progress::more : state;
}

encrypted::progress encrypted::check_result(int result)
{
    if (result > 0) return progress::done;
    int const system_error = errno;
    switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ: return progress::needs_read;
    case SSL_ERROR_WANT_WRITE: return progress::needs_write;
    case SSL_ERROR_ZERO_RETURN: error_ = asio::error::eof; return progress::failed;  // we may still write
    case SSL_ERROR_SSL: error_ = {static_cast<int>(ERR_peek_error()), asio::error::get_ssl_category()}; break;
    default: error_ = {system_error, boost::system::system_category()};
    }
    if (!error_) error_ = asio::error::eof;
    is_broken_ = true;
    return progress::failed;
}

/// One record at a time. The head and a small body go out together.
int encrypted::write_record()
{
    if (record_.empty()) take_record();
    SKALD_ASSERT(!record_.empty());  // OpenSSL can't tell an empty write from a failed one
    std::size_t written = 0;
    int const result = SSL_write_ex(ssl_.get(), record_.data(), record_.size(), &written);
    if (result == 1) std::string{}.swap(record_);
    return result;
}

void encrypted::take_record()
{
    record_.reserve(std::min(unsent_[0].size() + unsent_[1].size(), record_bytes_max));
    for (auto& part : unsent_) {
        auto const size = std::min(part.size(), record_bytes_max - record_.size());
        record_.append(static_cast<char const*>(part.data()), size);
        part += size;
    }
}

}  // namespace

std::unique_ptr<stream> tls_stream(tcp::socket socket, SSL_CTX& context)
{
    return std::make_unique<encrypted>(std::move(socket), context);
}

}  // namespace skald::http
