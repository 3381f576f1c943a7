// rediss://: a real redis-server with a certificate, and a client that checks it.
#include "redis/fronted_service.hpp"
#include "support/certificates.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <thread>

#include <arpa/inet.h>
#include <unistd.h>

using namespace skald;
using namespace std::chrono_literals;
using client_link = redis_detail::link;
using test::fronted_service;
using test::is_replay;

namespace {

// OpenSSL is told once for a process whom it may trust.
test::certificate_folder const& trusted()
{
    static test::certificate_folder const made;
    ::setenv("SSL_CERT_FILE", made.root().c_str(), 1);
    return made;
}

class server_with_tls
{
public:
    explicit server_with_tls(test::certificate_folder const& its)
        : redis_{{"--tls-port", std::to_string(port_), "--tls-cert-file", its.chain(), "--tls-key-file", its.key(),
                  "--tls-auth-clients", "no", "--bind", "127.0.0.1", "127.0.0.2"}}
    {}

    std::string url(std::string const& host = "127.0.0.1") const
    {
        return "rediss://" + host + ':' + std::to_string(port_);
    }
    test::redis_server const& redis() const { return redis_; }

    /// Empty: it was let in and got an answer.
    std::string refusal(std::string const& host) const
    try {
        auto const until = client_link::clock::now() + 10s;
        auto const to = redis_detail::connect(redis_detail::parse_url(url(host)), until);
        return to->ask({"PING"}, until).text() == "PONG" ? "" : "another answer";
    }
    catch (redis_detail::link_error const& error) {
        return error.what();
    }

private:
    std::uint16_t const port_{rig::find_free_port()};
    test::redis_server redis_;
};

/// Answers a client's first command with a text of this size.
class talkative_server
{
public:
    talkative_server(test::certificate_folder const& its, std::size_t size) : session_{SSL_CTX_new(TLS_server_method())}
    {
        sockaddr_in at{
            .sin_family = AF_INET, .sin_port = htons(port_), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
        REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
        REQUIRE(::listen(socket_, 1) == 0);
        REQUIRE(SSL_CTX_use_certificate_chain_file(session_.get(), its.chain().c_str()) == 1);
        REQUIRE(SSL_CTX_use_PrivateKey_file(session_.get(), its.key().c_str(), SSL_FILETYPE_PEM) == 1);
        thread_ = std::jthread{[this, size] { serve(size); }};
    }
    ~talkative_server()
    {
        thread_.join();
        ::close(socket_);
    }

    client_link connect() const { return client_link{{"127.0.0.1", port_}, client_link::clock::now() + 10s, true}; }

private:
    void serve(std::size_t size)
    {
        int const client = ::accept(socket_, nullptr, nullptr);
        std::unique_ptr<SSL, test::openssl_deleter<SSL_free>> const to{SSL_new(session_.get())};
        SSL_set_fd(to.get(), client);
        std::string asked(1'000, ' ');
        bool goes_on = SSL_accept(to.get()) == 1 && SSL_read(to.get(), asked.data(), 1'000) > 0;
        auto const head = '$' + std::to_string(size) + "\r\n";
        std::string const part(16 * 1024, 'x');
        goes_on = goes_on && SSL_write(to.get(), head.data(), static_cast<int>(head.size())) > 0;
        for (std::size_t sent = 0; goes_on && sent < size; sent += part.size())
            goes_on = SSL_write(to.get(), part.data(), static_cast<int>(part.size())) > 0;
        if (goes_on) SSL_write(to.get(), "\r\n", 2);
        ::close(client);
    }

    std::uint16_t const port_{rig::find_free_port()};
    std::unique_ptr<SSL_CTX, test::openssl_deleter<SSL_CTX_free>> session_;
    int const socket_{::socket(AF_INET, SOCK_STREAM, 0)};
    std::jthread thread_;
};

}  // namespace

TEST_CASE("over rediss:// one process answers what another one kept, large answers too, and all of it is encrypted")
{
    server_with_tls const server{trusted()};
    test::shared_effects shared;
    std::string const large(60'000, 'x');
    for (std::string const way : {"cache_aside", "accelerator"}) {
        fronted_service one{shared, way, server.url()}, other{shared, way, server.url()};
        one.then([&](http::request_context&) { return http::response{201, "text/plain", {}, large}; });
        other.see_epoch();
        auto const first = one.ask(way);
        REQUIRE(testing::wait_until([&] { return server.redis().keys(":r").size() >= 2; }));
        shared.forget();
        auto const again = other.ask(way);
        CHECK(is_replay(again));
        CHECK(again.body == large);
        CHECK(shared.of(way) == "1");
        server.redis().run({"FLUSHALL"});
    }
}

TEST_CASE("the name of the host has to be in the certificate")
{
    server_with_tls const server{trusted()};
    CHECK(server.refusal("127.0.0.1").empty());
    CHECK(server.refusal("localhost").empty());
    CHECK(server.refusal("127.0.0.2").find("TLS with 127.0.0.2: ") != std::string::npos);
}

TEST_CASE("a server whose certificate comes from nobody that is trusted is not talked to")
{
    trusted();
    test::certificate_folder const strange;
    server_with_tls const server{strange};
    CHECK(server.refusal("127.0.0.1").find("TLS with 127.0.0.1: ") != std::string::npos);
}

TEST_CASE("a server without TLS is none for rediss://")
{
    trusted();
    test::redis_server const plain;
    auto const address = redis_detail::parse_url("rediss://127.0.0.1:" + std::to_string(plain.port()));
    CHECK_THROWS_AS(redis_detail::connect(address, client_link::clock::now() + 200ms), redis_detail::link_error);
}

TEST_CASE("an answer that is too large is not read to its end")
{
    std::signal(SIGPIPE, SIG_IGN);
    talkative_server const server{trusted(), 64 * 1024 * 1024};
    auto to = server.connect();
    CHECK_THROWS_WITH_AS(to.ask({"PING"}, client_link::clock::now() + 60s), "an answer that is too large",
                         redis_detail::link_error);
}
