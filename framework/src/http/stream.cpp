#include "http/stream.hpp"

#include <boost/asio/write.hpp>

namespace skald::http {
namespace {

namespace asio = boost::asio;

class plain final : public stream
{
public:
    using stream::stream;

    bool open(completion) override { return true; }
    void read(asio::mutable_buffer into, completion done) override { socket().async_read_some(into, std::move(done)); }
    void write(std::array<asio::const_buffer, 2> bytes, completion done) override
    {
        asio::async_write(socket(), bytes, std::move(done));
    }
    bool end(completion) override { return true; }
    void close() override
    {
        error_code ignored;
        socket().close(ignored);
    }
};

}  // namespace

std::unique_ptr<stream> plain_stream(asio::ip::tcp::socket socket)
{
    return std::make_unique<plain>(std::move(socket));
}

}  // namespace skald::http
