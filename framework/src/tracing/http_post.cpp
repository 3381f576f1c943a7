#include "tracing/http_post.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <algorithm>

namespace skald::tracing {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;

/// One request. Its functions are called in this order, each when the one before has succeeded.
class post
{
public:
    post(asio::io_context& io, collector_address const& to, std::string const& body) : stream_{io}
    {
        request_.method(beast::http::verb::post);
        request_.target(to.path);
        request_.version(11);
        request_.set(beast::http::field::host, host_of(to));
        request_.set(beast::http::field::content_type, "application/json");
        request_.keep_alive(false);
        request_.body() = body;
        request_.prepare_payload();
    }

    void start(asio::ip::tcp::resolver::results_type const& addresses)
    {
        stream_.async_connect(addresses, [this](beast::error_code error, auto const&) {
            if (!fails("connecting", error)) write();
        });
    }

    post_answer answer;

private:
    void write()
    {
        beast::http::async_write(stream_, request_, [this](beast::error_code error, std::size_t) {
            if (!fails("sending", error)) read();
        });
    }

    void read()
    {
        beast::http::async_read(stream_, buffer_, response_, [this](beast::error_code error, std::size_t) {
            if (!fails("reading the response", error)) answer = {static_cast<int>(response_.result_int()), {}};
        });
    }

    bool fails(std::string_view what, beast::error_code const& error)
    {
        if (error) answer.error = std::string{what} + ": " + error.message();
        return error.failed();
    }

    beast::tcp_stream stream_;
    beast::http::request<beast::http::string_body> request_;
    beast::flat_buffer buffer_;
    beast::http::response<beast::http::string_body> response_;
};

}  // namespace

std::string host_of(collector_address const& to)
{
    auto const host = to.host.find(':') == std::string::npos ? to.host : '[' + to.host + ']';
    return host + ':' + to.port;
}

post_answer post_json(collector_address const& to, std::string const& body, std::chrono::milliseconds timeout,
                      std::function<bool()> const& is_over)
try {
    asio::io_context io;
    beast::error_code error;
    auto const addresses = asio::ip::tcp::resolver{io}.resolve(to.host, to.port, error);
    if (error) return {0, "looking up " + to.host + ": " + error.message()};
    post one{io, to, body};
    one.answer.error = "no response within " + std::to_string(timeout.count()) + " ms";
    one.start(addresses);
    auto const until = std::chrono::steady_clock::now() + timeout;
    while (!io.stopped() && std::chrono::steady_clock::now() < until && !is_over())
        io.run_until(std::min(until, std::chrono::steady_clock::now() + std::chrono::milliseconds{100}));
    return one.answer;
}
catch (std::exception const& error) {
    return {0, error.what()};
}

}  // namespace skald::tracing
