// The head of a request: what is read, and the table of what must never be.
#include <doctest/doctest.h>

#include "http/head.hpp"

#include <string>
#include <vector>

using namespace skald::http;
using namespace std::string_literals;

namespace {

skald::http_limits const limits{.request_line_bytes_max = 8 * 1024,
                                .header_bytes_max = 16 * 1024,
                                .header_count_max = 64,
                                .body_bytes_max = 256 * 1024};

constexpr int incomplete = -1;

/// The status of the refusal; 0 if the head is accepted; or `incomplete`.
int status_of(std::string const& text)
{
    incoming_bytes bytes;
    bytes.append(text);
    auto const read = head_reader{}.read(bytes, limits);
    if (!read) return read.error().status;
    if (*read == arrival::incomplete) return incomplete;
    REQUIRE(bytes.empty());
    return 0;
}

request_head accepted(std::string const& text)
{
    incoming_bytes bytes;
    bytes.append(text);
    head_reader reader;
    auto const read = reader.read(bytes, limits);
    if (!read) FAIL(read.error().detail);
    REQUIRE(*read == arrival::complete);
    return reader.head();
}

std::string post(std::string const& fields, std::string const& version = "HTTP/1.1")
{
    return "POST /orders " + version + "\r\nHost: shop\r\n" + fields + "\r\n";
}

std::string line_of(std::size_t size)
{
    return "GET /" + std::string(size - 14, 'a') + " HTTP/1.1";
}

struct bad_head
{
    std::string name, text;
    int status;
};

void check_refused(std::vector<bad_head> const& heads)
{
    for (auto const& [name, text, status] : heads) {
        INFO(name);
        CHECK(status_of(text) == status);
    }
}

std::string get(std::string const& fields)
{
    return "GET / HTTP/1.1\r\n" + fields + "\r\n";
}

}  // namespace

TEST_CASE("a head is read as it was written")
{
    auto const head =
        accepted("PATCH /a%20b?c=d HTTP/1.1\r\nHost: shop:80\r\nX-A:\t 1 2 \r\nx-a: \xc3\xa4\r\nEmpty:\r\n\r\n");
    CHECK(head.message.method == "PATCH");
    CHECK(head.message.target == "/a%20b?c=d");
    CHECK(head.message.path == "/a b");
    CHECK(head.message.query == "c=d");
    CHECK(head.minor_version == 1);
    CHECK(head.message.headers == header_list{{"Host", "shop:80"}, {"X-A", "1 2"}, {"x-a", "\xc3\xa4"}, {"Empty", ""}});
    CHECK_FALSE(head.has_body());
    CHECK(head.keep_alive);
}

TEST_CASE("the fields say whether there is a body, and how long it is")
{
    CHECK(accepted(post("Content-Length: 5\r\n")).content_length == 5u);
    CHECK(accepted(post("content-length: 0\r\n")).content_length == 0u);
    CHECK_FALSE(accepted(post("Content-Length: 0\r\n")).has_body());
    CHECK(accepted(post("transfer-encoding: chunked\r\n")).is_chunked);
    CHECK(accepted(post("Content-Length: 5\r\n", "HTTP/1.0")).content_length == 5u);
    CHECK(accepted(post("Expect: 100-Continue\r\nContent-Length: 5\r\n")).expects_continue);
    CHECK_FALSE(accepted(post("Expect: 100-continue\r\n", "HTTP/1.0")).expects_continue);
}

TEST_CASE("version and Connection say whether the connection is kept")
{
    CHECK_FALSE(accepted(post("Connection: close\r\n")).keep_alive);
    CHECK_FALSE(accepted(post("Connection: TE, Close\r\n")).keep_alive);
    CHECK_FALSE(accepted(post("Connection: keep-alive\r\nConnection: close\r\n")).keep_alive);
    CHECK(accepted(post("Connection: closed,,\r\n")).keep_alive);
    CHECK_FALSE(accepted(post("", "HTTP/1.0")).keep_alive);
    CHECK(accepted(post("Connection: Keep-Alive\r\n", "HTTP/1.0")).keep_alive);
    CHECK_FALSE(accepted("GET / HTTP/1.0\r\n\r\n").keep_alive);  // HTTP/1.0 may go without Host
}

TEST_CASE("a head that leaves open where its body ends is refused")
{
    check_refused({
        {"TE then CL", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400},
        {"CL then TE", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400},
        {"TE gzip then CL", post("Transfer-Encoding: gzip\r\nContent-Length: 5\r\n"), 400},
        {"TE empty then CL", post("Transfer-Encoding:\r\nContent-Length: 5\r\n"), 400},
        {"TE gzip", post("Transfer-Encoding: gzip\r\n"), 400},
        {"TE gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n"), 400},
        {"TE chunked, chunked", post("Transfer-Encoding: chunked, chunked\r\n"), 400},
        {"TE identity", post("Transfer-Encoding: identity\r\n"), 400},
        {"TE Chunked", post("Transfer-Encoding: Chunked\r\n"), 400},
        {"TE xchunked", post("Transfer-Encoding: xchunked\r\n"), 400},
        {"TE \"chunked\"", post("Transfer-Encoding: \"chunked\"\r\n"), 400},
        {"TE with a parameter", post("Transfer-Encoding: chunked;q=1\r\n"), 400},
        {"TE with a vertical tab", post("Transfer-Encoding: \vchunked\r\n"), 400},
        {"TE twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
        {"TE chunked and gzip", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n"), 400},
        {"TE on HTTP/1.0", post("Transfer-Encoding: chunked\r\n", "HTTP/1.0"), 400},
        {"CL twice, equal", post("Content-Length: 5\r\nContent-Length: 5\r\n"), 400},
        {"CL twice, different", post("Content-Length: 5\r\nContent-Length: 6\r\n"), 400},
        {"CL list", post("Content-Length: 5, 5\r\n"), 400},
        {"CL empty", post("Content-Length:\r\n"), 400},
        {"CL with a sign", post("Content-Length: +5\r\n"), 400},
        {"CL negative", post("Content-Length: -5\r\n"), 400},
        {"CL hexadecimal", post("Content-Length: 0x5\r\n"), 400},
        {"CL with a space", post("Content-Length: 5 5\r\n"), 400},
        {"CL with a fraction", post("Content-Length: 5.0\r\n"), 400},
        {"CL beyond 64 bits", post("Content-Length: 99999999999999999999999\r\n"), 413},
    });
}

TEST_CASE("a head that leaves open where a field ends is refused")
{
    check_refused({
        {"folded line", post("X: a\r\n b\r\n"), 400},
        {"folded line with a tab", post("Transfer-Encoding:\r\n\tchunked\r\n"), 400},
        {"folded first line", "GET / HTTP/1.1\r\n Host: shop\r\n\r\n", 400},
        {"space before the colon", post("Content-Length : 5\r\n"), 400},
        {"tab before the colon", post("Transfer-Encoding\t: chunked\r\n"), 400},
        {"no colon", post("Content-Length\r\n"), 400},
        {"no name", post(": 5\r\n"), 400},
        {"name that is no token", post("Content@Length: 5\r\n"), 400},
        {"NUL in a name", post("Conte\0nt: 5\r\n"s), 400},
        {"NUL in a value", post("X: a\0b\r\n"s), 400},
        {"control byte in a value",
         post("X: a\x01"
              "b\r\n"),
         400},
        {"DEL in a value", post("X: a\x7f\r\n"), 400},
        {"bare CR in a value", post("X: a\rb\r\n"), 400},
        {"bare CR in the request line", "GET /\r HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"bare CR as the empty line", "GET / HTTP/1.1\r\nHost: shop\r\n\rX: y\r\n\r\n", 400},
        {"CR before CRLF", post("X: a\r\r\n"), 400},
        {"bare LF after a field", post("X: a\nY: b\r\n"), 400},
        {"bare LF after the request line", "GET / HTTP/1.1\nHost: shop\r\n\r\n", 400},
        {"bare LF as the empty line", "GET / HTTP/1.1\r\nHost: shop\r\n\n", 400},
        {"bare LF first", "\nGET / HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"empty line first", "\r\n", 400},
    });
}

TEST_CASE("a head that leaves open whom it is for is refused")
{
    check_refused({
        {"no Host", get("X: a\r\n"), 400},
        {"Host twice", get("Host: shop\r\nHost: shop\r\n"), 400},
        {"Host twice on HTTP/1.0", post("Host: other\r\n", "HTTP/1.0"), 400},
        {"empty Host", get("Host:\r\n"), 400},
        {"Host with a path", get("Host: shop/a\r\n"), 400},
        {"Host with a user", get("Host: user@shop\r\n"), 400},
        {"Host list", get("Host: shop, other\r\n"), 400},
        {"Host with a space", get("Host: shop other\r\n"), 400},
        {"another host in the target", "GET http://other/ HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"another port in the target", "GET http://shop:81/ HTTP/1.1\r\nHost: shop:80\r\n\r\n", 400},
        {"a user in the target", "GET http://shop@other/ HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
    });
}

TEST_CASE("a request line that two programs could read differently is refused")
{
    check_refused({
        {"method that is no token", "G(T / HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"no method", " / HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"tab for a space", "GET\t/\tHTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"two spaces", "GET  / HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"space at the end", "GET / HTTP/1.1 \r\nHost: shop\r\n\r\n", 400},
        {"space in the target", "GET /a b HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"NUL in the target", "GET /a\0b HTTP/1.1\r\nHost: shop\r\n\r\n"s, 400},
        {"control byte in the target", "GET /a\x1b HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"byte above ASCII in the target", "GET /\xc3\xa4 HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"escaped NUL in the path", "GET /a%00 HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"bad escape in the path", "GET /a%2 HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"fragment in the target", "GET /a#b HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"asterisk form", "OPTIONS * HTTP/1.1\r\nHost: shop\r\n\r\n", 400},
        {"authority form", "CONNECT shop:80 HTTP/1.1\r\nHost: shop:80\r\n\r\n", 400},
        {"no version", "GET /\r\nHost: shop\r\n\r\n", 400},
        {"lower-case version", "GET / http/1.1\r\nHost: shop\r\n\r\n", 400},
        {"HTTP/1.10", "GET / HTTP/1.10\r\nHost: shop\r\n\r\n", 400},
        {"HTTP/1.2", "GET / HTTP/1.2\r\nHost: shop\r\n\r\n", 505},
        {"HTTP/0.9", "GET / HTTP/0.9\r\nHost: shop\r\n\r\n", 505},
        {"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\n", 505},
    });
}

TEST_CASE("a Connection header that is no list of options is refused")
{
    check_refused({{"an option that is no token", post("Connection: close@\r\n"), 400},
                   {"options without a comma", post("Connection: keep-alive close\r\n"), 400}});
}

TEST_CASE("an expectation that nobody knows is refused")
{
    check_refused({{"unknown expectation", post("Expect: 200-ok\r\n"), 417}});
}

TEST_CASE("an absolute target with the Host's authority is accepted")
{
    CHECK(accepted("GET http://Shop:80/a HTTP/1.1\r\nHost: shop:80\r\n\r\n").message.target == "http://Shop:80/a");
    CHECK(accepted("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").message.headers.size() == 1);
}

TEST_CASE("each limit of the head holds at its value and refuses one beyond")
{
    std::string const end = "\r\nHost: shop\r\n\r\n";
    CHECK(status_of(line_of(8 * 1024) + end) == 0);
    CHECK(status_of(line_of(8 * 1024 + 1) + end) == 414);

    auto const head_of = [&](std::size_t size) {
        std::string const begin = "GET / HTTP/1.1\r\nHost: shop\r\nX: ";
        return begin + std::string(size - begin.size() - 4, 'x') + "\r\n\r\n";
    };
    CHECK(status_of(head_of(16 * 1024)) == 0);
    CHECK(status_of(head_of(16 * 1024 + 1)) == 431);

    auto const fields_of = [&](int count) {
        std::string text = "GET / HTTP/1.1\r\nHost: shop\r\n";
        for (int i = 1; i < count; ++i) text += "X: y\r\n";
        return text + "\r\n";
    };
    CHECK(status_of(fields_of(64)) == 0);
    CHECK(status_of(fields_of(65)) == 431);

    CHECK(status_of(post("Content-Length: 262144\r\n")) == 0);
    CHECK(status_of(post("Content-Length: 262145\r\n")) == 413);
}

TEST_CASE("a limit is enforced before the head is whole")
{
    CHECK(status_of(std::string(8 * 1024 + 1, 'a')) == 414);
    CHECK(status_of(std::string(8 * 1024, 'a')) == incomplete);
    CHECK(status_of("GET / HTTP/1.1\r\n" + std::string(16 * 1024, 'x')) == 431);
    CHECK(status_of("GET / HTTP/1.1\n") == 400);
    CHECK(status_of("GET / HTTP/1.1\rHost") == 400);
    CHECK(status_of("GET / HTTP/1.1\r\nHost") == incomplete);
}

TEST_CASE("the head has the same end however the bytes are cut")
{
    auto const text = post("X: y\r\n");
    auto const bytes = text + "next";
    for (std::size_t first = 0; first < text.size(); ++first) {
        incoming_bytes cut;
        head_reader reader;
        cut.append(std::string_view{bytes}.substr(0, first));
        REQUIRE(*reader.read(cut, limits) == arrival::incomplete);
        cut.append(std::string_view{bytes}.substr(first));
        REQUIRE(*reader.read(cut, limits) == arrival::complete);
        REQUIRE(reader.head().message.headers.size() == 2);
        REQUIRE(cut.take(bytes.size()) == "next");
    }
}
