// What a server behind S3's API may do to an answer: no step may ever run with what comes of it.
#include "core/text.hpp"
#include "ports/fault.hpp"
#include "s3/s3_bodies.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <thread>

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

    /// What a read throws.
    std::string read()
    {
        auto const at = "http://127.0.0.1:" + std::to_string(port_) + "/skald";
        s3_detail::s3_bodies bodies{{.where = s3_detail::parse_address(at),
                                     .who = {.key = "k", .secret = "s"},
                                     .slow_time = std::chrono::seconds{1}},
                                    "orders-1"};
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
    over.set_value();
}
