// What a server behind S3's API may do to an answer: no step may ever run with what comes of it.
#include "core/text.hpp"
#include "ports/fault.hpp"
#include "s3/s3_bodies.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <httplib.h>

using namespace skald;

namespace {

std::string const body(200'000, 'b');

/// Lists one body, and answers for it as a test says.
class faulty_server
{
public:
    using answerer = std::function<void(httplib::Response&)>;

    explicit faulty_server(answerer answer)
    {
        server_.Get("/skald", [this](httplib::Request const&, httplib::Response& to) {
            to.set_header("Date", "Wed, 25 Nov 2026 18:11:59 GMT");
            to.set_content("<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>" + name() +
                               "</Key><LastModified>2026-11-25T18:11:00.000Z</LastModified><Size>" +
                               std::to_string(body.size()) + "</Size></Contents></ListBucketResult>",
                           "application/xml");
        });
        server_.Get("/skald/" + name(), [answer](httplib::Request const&, httplib::Response& to) { answer(to); });
        port_ = server_.bind_to_any_port("127.0.0.1");
        thread_ = std::thread{[this] { server_.listen_after_bind(); }};
        while (!server_.is_running()) std::this_thread::yield();
    }
    ~faulty_server()
    {
        server_.stop();
        thread_.join();
    }

    s3_detail::client_options options() const
    {
        return {.where = s3_detail::parse_address("http://127.0.0.1:" + std::to_string(port_) + "/skald"),
                .who = {.key = "k", .secret = "s"},
                .slow_time = std::chrono::seconds{1}};
    }

    /// What a read throws.
    std::string read() const { return read(options()); }
    static std::string read(s3_detail::client_options options)
    {
        s3_detail::s3_bodies bodies{std::move(options), "orders-1"};
        try {
            return bodies.read(core::reference_to(body, "")) == body ? "read" : "another body was read";
        }
        catch (ports::body_fault const& met) {
            return std::string{met.reason()};
        }
        catch (ports::fault const& met) {
            CHECK(met.kind == ports::fault_kind::unavailable);
            return std::string{"unavailable: "} + met.what();
        }
    }

private:
    static std::string name() { return core::to_hex(core::fingerprint_of(body)) + "/body.1"; }

    httplib::Server server_;
    int port_{};
    std::thread thread_;
};

std::string read_of(faulty_server::answerer answer)
{
    return faulty_server{std::move(answer)}.read();
}

using boost::asio::ip::tcp;

/// Answers a request, takes the upload that follows on that connection and closes it; then answers the next upload.
void lose_first_upload(tcp::acceptor& listens, std::string const& bytes, std::vector<std::string>& came)
try {
    for (int connection = 0; connection < 2; ++connection) {
        auto socket = listens.accept();
        std::string left;
        auto const read_to = [&](std::string const& end) {
            auto const size = boost::asio::read_until(socket, boost::asio::dynamic_buffer(left), end);
            auto text = left.substr(0, size);
            left.erase(0, size);
            return text;
        };
        std::string const answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        if (connection == 0) {
            read_to("\r\n\r\n");
            boost::asio::write(socket, boost::asio::buffer(answer));
        }
        read_to("\r\n\r\n");
        came.push_back(read_to(bytes));
        if (connection == 1) boost::asio::write(socket, boost::asio::buffer(answer));
    }
}
catch (boost::system::system_error const&) {
    // That is what a test sees in `came`.
}

}  // namespace

TEST_CASE("only the body itself is read, whatever the server answers")
{
    CHECK(read_of([](auto& to) { to.set_content(body, "x"); }) == "read");
    CHECK(read_of([](auto& to) { to.set_content(body.substr(1) + 'c', "x"); }) == "body_damaged");
    CHECK(read_of([](auto& to) { to.set_content(body.substr(1), "x"); }) == "body_damaged");
    CHECK(read_of([](auto& to) { to.set_content("", "x"); }) == "body_damaged");
    CHECK(read_of([](auto& to) { to.status = 404; }) == "body_missing");  // each time that it is listed again
    auto const failed = read_of([](auto& to) {
        to.status = 500;
        to.set_content("<Error><Code>InternalError</Code><Message>not now</Message></Error>", "x");
    });
    CHECK(failed.starts_with("unavailable"));
    CHECK(failed.find("500 InternalError: not now") != std::string::npos);
    CHECK(read_of([](auto& to) { to.status = 503; }).starts_with("unavailable"));
    auto const moved = [](auto& to) { to.set_redirect("http://127.0.0.1:1/elsewhere"); };
    CHECK(read_of(moved).starts_with("unavailable"));  // whoever gets our signature is who we chose
    CHECK(read_of([](auto& to) { to.set_content(std::string(3'000'000, 'b'), "x"); }).find("more than was asked for") !=
          std::string::npos);
}

TEST_CASE("an answer that ends early, or not at all, is a server that is away, and not a body that is damaged")
{
    auto const part = [](httplib::DataSink& sink) { return sink.write(body.data(), body.size() / 2); };
    CHECK(read_of([&](auto& to) {
              to.set_content_provider(body.size(), "x", [&](std::size_t, std::size_t, httplib::DataSink& sink) {
                  part(sink);
                  return false;
              });
          }).starts_with("unavailable"));

    std::promise<void> over;
    auto const is_over = over.get_future().share();
    faulty_server slow{[&](auto& to) {
        to.set_content_provider(body.size(), "x", [&](std::size_t, std::size_t, httplib::DataSink& sink) {
            part(sink);
            is_over.wait();
            return false;
        });
    }};
    CHECK(slow.read().starts_with("unavailable"));
    // One that is never quite as slow as that has an end too.
    auto patient = slow.options();
    patient.slow_time = std::chrono::hours{24};
    patient.connect_time = patient.spare_time = std::chrono::milliseconds{200};
    patient.whole_rate = 1'024 * 1'024 * 1'024;
    CHECK(faulty_server::read(patient).starts_with("unavailable"));
    over.set_value();
}

TEST_CASE("what a kept connection lost is sent again, from its beginning")
{
    boost::asio::io_context io;
    tcp::acceptor listens{io, {boost::asio::ip::make_address("127.0.0.1"), 0}};
    auto const at = "http://127.0.0.1:" + std::to_string(listens.local_endpoint().port()) + "/skald";
    std::string const bytes = "what is kept";
    std::vector<std::string> came;
    std::jthread server{[&] { lose_first_upload(listens, bytes, came); }};
    s3_detail::client client{{.where = s3_detail::parse_address(at), .who = {.key = "k", .secret = "s"}}};
    CHECK(client.send({.method = "GET"}).is_good());
    CHECK_NOTHROW(client.send({.method = "PUT", .name = "a", .body = bytes}));
    tcp::socket{io}.connect(listens.local_endpoint());  // if it still waits for one
    server.join();
    CHECK(came == std::vector<std::string>{bytes, bytes});
}
