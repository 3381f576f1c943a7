// amqps against a real broker: whose certificate is believed. Needs AMQP_URL and rabbitmqctl, as the tests of an
// operator.
#include "transport_rabbitmq_fixture.hpp"

#include "rig/process.hpp"
#include "support/certificates.hpp"
#include "support/stack_control.hpp"

using namespace skald::test;

namespace {

/// A TLS listener of the broker, until the end of the scope.
class tls_listener
{
public:
    explicit tls_listener(certificate_folder const& files)
    {
        rabbitmqctl("eval '{ok, _} = application:ensure_all_started(ssl), rabbit_networking:start_ssl_listener(" +
                    address() + ", [{certfile, \"" + files.chain() + "\"}, {keyfile, \"" + files.key() + "\"}], 2).'");
    }
    tls_listener(tls_listener const&) = delete;
    tls_listener& operator=(tls_listener const&) = delete;
    ~tls_listener()
    {
        rabbitmqctl("eval 'rabbit_networking:stop_ranch_listener_of_protocol(amqp_ssl), "
                    "rabbit_networking:stop_tcp_listener(" +
                    address() + ").'");
    }
    std::uint16_t port() const { return port_; }

private:
    std::string address() const { return "{\"127.0.0.1\", " + std::to_string(port_) + "}"; }

    std::uint16_t const port_{skald::rig::find_free_port()};
};

/// What became of a connection to that host; empty: it stands.
std::string try_host(std::string const& hosts, certificate_folder const& files)
try {
    auto where = skald::rabbitmq::parse_url("amqps://" + hosts + "/?cacertfile=" + files.root());
    auto const plain = test_broker();
    where.user = plain.user;
    where.password = plain.password;
    operator_hands const connected{where};
    return {};
}
catch (skald::rabbitmq::connection_lost const& error) {
    return error.what();
}

std::string with_port(std::string const& host, tls_listener const& on)
{
    return host + ":" + std::to_string(on.port());
}

}  // namespace

TEST_CASE("a broker's certificate is believed for its name and for its address, and for no other host")
{
    certificate_folder files;
    SUBCASE("the name and the address are in it")
    {
        tls_listener const on{files};
        for (auto const* host : {"localhost", "127.0.0.1"}) CHECK(try_host(with_port(host, on), files).empty());
        CHECK_MESSAGE(try_host(with_port("127.0.0.1", on) + "," + with_port("localhost", on), files).empty(),
                      "of several nodes each has its own");
        certificate_folder const others;
        auto const refused = try_host(with_port("localhost", on), others);
        CHECK_MESSAGE(refused.find("certificate") != std::string::npos, refused);
    }
    SUBCASE("the name alone")
    {
        files.renew("name", 1, "DNS:localhost");
        tls_listener const on{files};
        CHECK(try_host(with_port("localhost", on), files).empty());
        CHECK(!try_host(with_port("127.0.0.1", on), files).empty());
    }
    SUBCASE("the address alone")
    {
        files.renew("localhost", 1, "IP:127.0.0.1");
        tls_listener const on{files};
        CHECK(try_host(with_port("127.0.0.1", on), files).empty());
        CHECK_MESSAGE(try_host(with_port("localhost", on), files).empty(),
                      "its common name counts where no name else is");
    }
    SUBCASE("another's name and address")
    {
        files.renew("elsewhere", 1, "DNS:broker.example,IP:127.0.0.2");
        tls_listener const on{files};
        for (auto const* host : {"localhost", "127.0.0.1"}) {
            auto const refused = try_host(with_port(host, on), files);
            CHECK_MESSAGE(refused.find("certificate") != std::string::npos, refused);
        }
    }
}
