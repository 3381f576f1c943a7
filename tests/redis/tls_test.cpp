// rediss://: a real redis-server with a certificate, and a client that checks it.
#include "redis/fronted_service.hpp"
#include "support/certificates.hpp"

#include <doctest/doctest.h>

using namespace skald;
using namespace std::chrono_literals;
using redis_detail::link;
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
        auto const until = link::clock::now() + 10s;
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
    CHECK_THROWS_AS(redis_detail::connect(address, link::clock::now() + 200ms), redis_detail::link_error);
}
