// AMQP URLs mean what other clients take them for, and a bad one is refused without showing its password.
#include <doctest/doctest.h>

#include "rabbitmq/url.hpp"

#include <stdexcept>

namespace {

using skald::rabbitmq::parse_url;

std::string refusal_of(std::string const& url)
{
    try {
        parse_url(url);
    }
    catch (std::invalid_argument const& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("a URL's parts are found")
{
    auto const where = parse_url("amqp://alice:secret@broker.example:5673/shop");
    CHECK_FALSE(where.tls);
    CHECK(where.endpoints.front().host == "broker.example");
    CHECK(where.endpoints.front().port == 5673);
    CHECK(where.user == "alice");
    CHECK(where.password == "secret");
    CHECK(where.vhost == "shop");
}

TEST_CASE("what is left out has AMQP's defaults")
{
    auto const where = parse_url("amqp://broker");
    CHECK(where.endpoints.front().host == "broker");
    CHECK(where.endpoints.front().port == 5672);
    CHECK(where.user == "guest");
    CHECK(where.password == "guest");
    CHECK(where.vhost == "/");
    CHECK(parse_url("amqps://broker").endpoints.front().port == 5671);
    CHECK(parse_url("amqps://broker").tls);
    CHECK(parse_url("amqp://alice@broker").password == "guest");
    CHECK(parse_url("amqp://alice:@broker").password == "");
}

TEST_CASE("an empty path and a slash both mean the vhost /")
{
    CHECK(parse_url("amqp://broker/").vhost == "/");
    CHECK(parse_url("amqp://broker/%2F").vhost == "/");
    CHECK(parse_url("amqp://broker/%2fa%2fb").vhost == "/a/b");
}

TEST_CASE("the nodes of a cluster stand one after the other, each with its port or the usual one")
{
    auto const where = parse_url("amqp://u:p@one:5673,two,[::1]:5674/shop");
    CHECK(where.endpoints == std::vector<skald::rabbitmq::endpoint>{{"one", 5673}, {"two", 5672}, {"::1", 5674}});
    CHECK(where.vhost == "shop");
    CHECK(describe(where) == "one:5673,two:5672,[::1]:5674/shop");
    CHECK(refusal_of("amqp://one,,two").find("there is no host") != std::string::npos);
    CHECK(refusal_of("amqp://one,").find("there is no host") != std::string::npos);
}

TEST_CASE("user, password, host and vhost are percent-decoded, to any byte but zero")
{
    auto const where = parse_url("amqp://a%40b:p%3A%2F%40%25%C3%A4@host%2Dname/v%20h%FF");
    CHECK(where.user == "a@b");
    CHECK(where.password == "p:/@%\xC3\xA4");
    CHECK(where.endpoints.front().host == "host-name");
    CHECK(where.vhost == "v h\xFF");
}

TEST_CASE("an IPv6 address stands in brackets")
{
    auto const where = parse_url("amqp://[::1]:5673/shop");
    CHECK(where.endpoints.front().host == "::1");
    CHECK(where.endpoints.front().port == 5673);
    CHECK(describe(where) == "[::1]:5673/shop");
    CHECK(parse_url("amqp://[::1]").endpoints.front().port == 5672);
}

TEST_CASE("certificates are parameters of amqps")
{
    auto const where = parse_url("amqps://broker/shop?cacertfile=%2Fetc%2Fca.pem&certfile=/c.pem&keyfile=/k.pem");
    CHECK(where.cacertfile == "/etc/ca.pem");
    CHECK(where.certfile == "/c.pem");
    CHECK(where.keyfile == "/k.pem");
    CHECK(where.vhost == "shop");
    CHECK(parse_url("amqps://broker?cacertfile=/ca.pem").cacertfile == "/ca.pem");
}

TEST_CASE("a bad URL is refused, and the reason says what is wrong and shows no password")
{
    struct
    {
        char const* url;
        char const* says;
    } const cases[]{
        {"", "begin with"},
        {"http://u:hunter2@broker", "begin with"},
        {"AMQP://u:hunter2@broker", "begin with"},
        {"amqp://", "no host"},
        {"amqp://u:hunter2@", "no host"},
        {"amqp://u:hunter2@:5672", "no host"},
        {"amqp://u:hunter2@broker:", "port"},
        {"amqp://u:hunter2@broker:0", "port"},
        {"amqp://u:hunter2@broker:65536", "port"},
        {"amqp://u:hunter2@broker:56a", "port"},
        {"amqp://u:hunter2@broker:-1", "port"},
        {"amqp://u:hunter2@broker:99999999999999999999", "port"},
        {"amqp://u:hunter2%@broker", "password"},
        {"amqp://u:hunter2%4@broker", "password"},
        {"amqp://u:hunter2%zz@broker", "password"},
        {"amqp://u:hunter2%00@broker", "zero byte"},
        {"amqp://u%g0:hunter2@broker", "user"},
        {"amqp://u:hunter2@[::1", "]"},
        {"amqp://u:hunter2@[::1]x", "]"},
        {"amqp://u:hunter2@broker/a/b", "%2F"},
        {"amqp://u:hunter2@broker/a%", "vhost"},
        {"amqp://u:hunter2@broker/a#b", "%23"},
        {"amqp://u:hunter2@broker/?verify=verify_none", "parameter"},
        {"amqps://u:hunter2@broker/?certfile=a", "together"},
        {"amqp://u:hunter2@broker/?cacertfile=a", "amqps"},
    };
    for (auto const& [url, says] : cases) {
        CAPTURE(url);
        auto const why = refusal_of(url);
        CHECK(why.find(says) != std::string::npos);
        CHECK(why.find("hunter2") == std::string::npos);
    }
    CHECK(refusal_of("amqp://broker/" + std::string(256, 'v')).find("255") != std::string::npos);
}

TEST_CASE("a password with an @ or a slash that nobody encoded does not become part of a host that is shown")
{
    CHECK(parse_url("amqp://u:hunter@2@broker").endpoints.front().host == "broker");
    CHECK(describe(parse_url("amqp://u:hunter@2@broker")).find("hunter") == std::string::npos);
    CHECK(refusal_of("amqp://u:hun/ter2@broker").find("ter2") == std::string::npos);
    CHECK(refusal_of("amqp://u:hun/ter2@broker") != "");
}

TEST_CASE("what is shown of an address has neither user nor password")
{
    CHECK(describe(parse_url("amqp://alice:secret@broker:5673/shop")) == "broker:5673/shop");
    CHECK(describe(parse_url("amqp://alice:secret@broker")) == "broker:5672/");
}
