// What is signed is what is sent: the signature of each kind of request, computed again by the rules of S3 (Signature
// Version 4) from what arrived.
#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "ports/fault.hpp"
#include "s3/client.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <thread>

#include <httplib.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

using namespace skald;

namespace {

std::string const secret = "a secret";

std::string hmac(std::string const& key, std::string const& text)
{
    unsigned char made[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<unsigned char const*>(text.data()),
         text.size(), made, &size);
    return {reinterpret_cast<char const*>(made), size};
}

std::string between(std::string const& text, std::string const& from, std::string const& to)
{
    auto const begin = text.find(from);
    REQUIRE(begin != std::string::npos);
    auto const rest = text.substr(begin + from.size());
    return rest.substr(0, rest.find(to));
}

// Of a query whose names are sorted, and written as S3 wants them.
std::string signature_of(httplib::Request const& r)
{
    auto const said = r.get_header_value("Authorization");
    auto const signed_names = between(said, "SignedHeaders=", ",");
    auto const question = r.target.find('?');
    auto const query = question == std::string::npos ? "" : r.target.substr(question + 1);
    auto canonical = r.method + '\n' + r.target.substr(0, question) + '\n' + query + '\n';
    std::istringstream names{signed_names};
    for (std::string name; std::getline(names, name, ';');)
        canonical += name + ':' + r.get_header_value(name.c_str()) + '\n';
    canonical += '\n' + signed_names + '\n' + r.get_header_value("x-amz-content-sha256");
    auto const time = r.get_header_value("x-amz-date");
    auto const day = time.substr(0, 8);
    auto const to_sign = "AWS4-HMAC-SHA256\n" + time + '\n' + day + "/eu-central-1/s3/aws4_request\n" +
                         core::to_hex(core::fingerprint_of(canonical));
    auto const key = hmac(hmac(hmac(hmac("AWS4" + secret, day), "eu-central-1"), "s3"), "aws4_request");
    return core::to_hex(hmac(key, to_sign));
}

/// Checks each request's signature, and that what must be signed is.
class checking_server
{
public:
    checking_server()
    {
        server_.set_pre_routing_handler([this](httplib::Request const& r, httplib::Response& to) {
            auto const said = r.get_header_value("Authorization");
            bool const is_right =
                said.find("Credential=id/") != std::string::npos && between(said, "Signature=", ",") == signature_of(r);
            signed_ = between(said, "SignedHeaders=", ",");
            to.status = is_right ? 200 : 403;
            return httplib::Server::HandlerResponse::Handled;
        });
        port_ = server_.bind_to_any_port("127.0.0.1");
        thread_ = std::thread{[this] { server_.listen_after_bind(); }};
        while (!server_.is_running()) std::this_thread::yield();
    }
    ~checking_server()
    {
        server_.stop();
        thread_.join();
    }

    /// The status, and what was signed.
    std::string send(s3_detail::request const& what, std::string const& with_secret = secret)
    {
        auto const at = "http://127.0.0.1:" + std::to_string(port_) + "/skald/shop/bodies";
        s3_detail::client client{
            {.where = s3_detail::parse_address(at),
             .who = {.key = "id", .secret = with_secret, .token = "t/o==", .region = "eu-central-1"}}};
        return std::to_string(client.send(what).status) + ' ' + signed_;
    }

private:
    httplib::Server server_;
    int port_{};
    std::thread thread_;
    std::string signed_;
};

}  // namespace

TEST_CASE("each kind of request is signed as S3 wants it, with the session's token and what is copied")
{
    checking_server server;
    auto const get = server.send({.method = "GET", .name = "ab/body.1"});
    CHECK(get.starts_with("200"));
    for (auto const* name : {"host", "x-amz-content-sha256", "x-amz-date"}) CHECK(get.find(name) != std::string::npos);
    CHECK(server.send({.method = "DELETE", .name = "ab/body.1"}).starts_with("200"));
    CHECK(
        server.send({.method = "GET", .query = "list-type=2&max-keys=1&prefix=shop%2Fbodies%2Fab"}).starts_with("200"));
    CHECK(server.send({.method = "GET", .query = "continuation-token=a%2Fb%3D%3D&list-type=2&prefix="})
              .starts_with("200"));
    std::string const body = "hello";
    auto const put = server.send(
        {.method = "PUT", .name = "ab/body.1", .body = body, .body_sha256 = core::to_hex(core::fingerprint_of(body))});
    CHECK(put.starts_with("200"));
    CHECK(put.find("x-amz-security-token") != std::string::npos);
    auto const copy = server.send({.method = "PUT", .name = "ab/body.2", .copy_of = "ab/body.1"});
    CHECK(copy.starts_with("200"));
    CHECK(copy.find("x-amz-copy-source") != std::string::npos);
    CHECK(server.send({.method = "GET", .name = "ab/body.1"}, "another").starts_with("403"));
}
