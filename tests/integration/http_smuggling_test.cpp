// The golden table: bytes that two programs could read as different requests, what they are answered, and whether the
// connection stays. Two more requests follow in the same bytes: they must be served both, or never be read.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/live_server.hpp"

using namespace skald::test;
using namespace std::string_literals;

namespace {

enum class then { closed, kept };

struct row
{
    std::string name;
    std::string bytes;
    int status;
    then connection;
};

std::string headed(std::string const& fields, std::string const& body = {}, std::string const& version = "HTTP/1.1")
{
    return "POST / " + version + "\r\nHost: a\r\n" + fields + "\r\n" + body;
}

std::string chunked(std::string const& chunks)
{
    return headed("Transfer-Encoding: chunked\r\n", chunks);
}

std::vector<row> const table{
    // Where the body ends: Transfer-Encoding and Content-Length.
    {"TE gzip, then CL", headed("Transfer-Encoding: gzip\r\nContent-Length: 4\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE, then CL", headed("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "0\r\n\r\n"), 400, then::closed},
    {"CL, then TE", headed("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE on HTTP/1.0", headed("Transfer-Encoding: chunked\r\n", "0\r\n\r\n", "HTTP/1.0"), 400, then::closed},
    {"TE twice", headed("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400,
     then::closed},
    {"TE identity", headed("Transfer-Encoding: identity\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE gzip, chunked", headed("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE chunked, identity", headed("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE chunked, chunked", headed("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE with an empty element", headed("Transfer-Encoding: ,chunked\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE with a parameter", headed("Transfer-Encoding: chunked;q=1\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE in quotes", headed("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE xchunked", headed("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE with a NUL", headed("Transfer-Encoding: chunked\0\r\n"s, "0\r\n\r\n"), 400, then::closed},
    {"TE empty", headed("Transfer-Encoding:\r\n"), 400, then::closed},
    {"TE empty, then CL", headed("Transfer-Encoding:\r\nContent-Length: 0\r\n"), 400, then::closed},
    {"TE in capitals", headed("Transfer-Encoding: CHUNKED\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE folded", headed("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE, a space before the colon", headed("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE, a vertical tab before its value", headed("Transfer-Encoding: \vchunked\r\n", "0\r\n\r\n"), 400, then::closed},
    {"TE by another name", headed("Transfer_Encoding: chunked\r\nContent-Length: 0\r\n"), 200, then::kept},
    {"CL twice, equal", headed("Content-Length: 0\r\nContent-Length: 0\r\n"), 400, then::closed},
    {"CL twice, different", headed("Content-Length: 0\r\nContent-Length: 5\r\n", "hello"), 400, then::closed},
    {"CL twice in one", headed("Content-Length: 0, 0\r\n"), 400, then::closed},
    {"CL signed", headed("Content-Length: +0\r\n"), 400, then::closed},
    {"CL hexadecimal", headed("Content-Length: 0x0\r\n"), 400, then::closed},
    {"CL negative", headed("Content-Length: -1\r\n"), 400, then::closed},
    {"CL empty", headed("Content-Length:\r\n"), 400, then::closed},
    {"CL with a space inside", headed("Content-Length: 0 0\r\n"), 400, then::closed},
    {"CL, a space before the colon", headed("Content-Length : 5\r\n", "hello"), 400, then::closed},
    {"CL beyond 63 bits", headed("Content-Length: 9223372036854775808\r\n"), 413, then::closed},
    {"CL beyond 64 bits", headed("Content-Length: 18446744073709551616\r\n"), 413, then::closed},
    {"CL with zeros before it", headed("Content-Length: 0005\r\n", "hello"), 200, then::kept},
    {"CL with space around it", headed("Content-Length: \t 5 \t\r\n", "hello"), 200, then::kept},
    {"a GET with a body", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 200, then::kept},
    // Chunks.
    {"chunks", chunked("5\r\nhello\r\n0\r\n\r\n"), 200, then::kept},
    {"a chunk's extension", chunked("5;name=value\r\nhello\r\n0\r\n\r\n"), 200, then::kept},
    {"an extension in quotes", chunked("5;a=\"b;\\\" c\"\r\nhello\r\n0\r\n\r\n"), 200, then::kept},
    {"an extension after a space", chunked("5 ; a = b\r\nhello\r\n0\r\n\r\n"), 200, then::kept},
    {"an extension without a name", chunked("5;\r\nhello\r\n0\r\n\r\n"), 400, then::closed},
    {"an extension whose quotes stay open", chunked("5;a=\"b\r\nhello\r\n0\r\n\r\n"), 400, then::closed},
    {"CRLF in an extension's quotes", chunked("5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n"), 400, then::closed},
    {"a bare CR in an extension", chunked("5;a\rb\r\nhello\r\n0\r\n\r\n"), 400, then::closed},
    {"NUL in an extension", chunked("5;a=\0\r\nhello\r\n0\r\n\r\n"s), 400, then::closed},
    {"a bare LF in an extension", chunked("0;a=\"\n\"\r\n\r\n"), 400, then::closed},
    {"a bare LF after a chunk's size", chunked("5\nhello\r\n0\r\n\r\n"), 400, then::closed},
    {"bare LFs alone in chunks", chunked("5\nhello\n0\n\n"), 400, then::closed},
    {"a bare LF after the last chunk's size", chunked("5\r\nhello\r\n0\n\n"), 400, then::closed},
    {"a bare LF at the end of chunks", chunked("5\r\nhello\r\n0\r\n\n"), 400, then::closed},
    {"a chunk longer than its size", chunked("4\r\nhello\r\n0\r\n\r\n"), 400, then::closed},
    {"a chunk's size signed", chunked("+5\r\nhello\r\n0\r\n\r\n"), 400, then::closed},
    {"a chunk's size with 0x", chunked("0x5\r\nhello\r\n0\r\n\r\n"), 400, then::closed},
    {"a chunk's size with a space before it", chunked(" 5\r\nhello\r\n0\r\n\r\n"), 400, then::closed},
    {"a chunk's size with a space after it", chunked("5 \r\nhello\r\n0\r\n\r\n"), 400, then::closed},
    {"a chunk without a size", chunked("\r\nhello\r\n0\r\n\r\n"), 400, then::closed},
    {"a chunk's size with zeros before it", chunked("00000000000000000005\r\nhello\r\n000\r\n\r\n"), 200, then::kept},
    {"a chunk's size beyond 63 bits", chunked("8000000000000000\r\nhello\r\n0\r\n\r\n"), 413, then::closed},
    {"the largest size of a chunk", chunked("ffffffffffffffff\r\nhello\r\n0\r\n\r\n"), 413, then::closed},
    {"a chunk's data that ends in a bare CR", chunked("5\r\nhello\r0\r\n\r\n"), 400, then::closed},
    {"a chunk's size beyond 64 bits", chunked("10000000000000005\r\nhello\r\n0\r\n\r\n"), 400, then::closed},
    {"a chunk beyond the body's limit", chunked("fffffffffffffff\r\n"), 413, then::closed},
    {"a trailer with a length", chunked("5\r\nhello\r\n0\r\nContent-Length: 99\r\n\r\n"), 400, then::closed},
    {"a trailer with a coding", chunked("0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, then::closed},
    {"a trailer that is folded", chunked("0\r\nA: b\r\n c\r\n\r\n"), 400, then::closed},
    {"a trailer with a bare CR", chunked("0\r\nA: b\rc\r\n\r\n"), 400, then::closed},
    {"a trailer with a bare LF", chunked("0\r\nA: b\nc: d\r\n\r\n"), 400, then::closed},
    {"a trailer without a colon", chunked("0\r\nA\r\n\r\n"), 400, then::closed},
    {"a trailer with a key", chunked("5\r\nhello\r\n0\r\nIdempotency-Key: k\r\n\r\n"), 200, then::kept},
    // Where a line ends.
    {"bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400, then::closed},
    {"bare LF after a field", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400, then::closed},
    {"bare CR in a field", "GET / HTTP/1.1\r\nHost: a\r\nX: b\rContent-Length: 9\r\n\r\n", 400, then::closed},
    {"bare CR in the target", "GET /a\rb HTTP/1.1\r\nHost: a\r\n\r\n", 400, then::closed},
    {"bare CR for the empty line", "GET / HTTP/1.1\r\nHost: a\r\n\rX: b\r\n\r\n", 400, then::closed},
    {"CR before CRLF", "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\r\n\r\n", 400, then::closed},
    {"NUL in a field", "GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n"s, 400, then::closed},
    {"a folded field", "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", 400, then::closed},
    {"an empty line first", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, then::closed},
    {"two spaces in the request line", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400, then::closed},
    {"a space before the method", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, then::closed},
    {"a space after the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400, then::closed},
    {"a space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400, then::closed},
    {"a tab in the request line", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, then::closed},
    {"a byte above ASCII in the target", "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n", 400, then::closed},
    {"the version in small letters", "GET / http/1.1\r\nHost: a\r\n\r\n", 400, then::closed},
    {"HTTP/1.10", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400, then::closed},
    {"HTTP/0.9", "GET /\r\n\r\n", 400, then::closed},
    {"HTTP/2", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, then::closed},
    {"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, then::closed},
    // Headers that may be there once.
    {"no Host", "GET / HTTP/1.1\r\n\r\n", 400, then::closed},
    {"Host twice, equal", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, then::closed},
    {"Host twice, different", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, then::closed},
    {"Host, a space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, then::closed},
    {"Host folded", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, then::closed},
    {"a user in the target", "GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n", 400, then::closed},
    {"another host in the target", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, then::closed},
    {"the same host in the target", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 200, then::kept},
    {"Expect twice", headed("Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 0\r\n"), 417,
     then::closed},
    {"Expect that nobody knows", headed("Expect: 200-ok\r\nContent-Length: 0\r\n"), 417, then::closed},
    {"any other header twice", headed("X: a\r\nX: b\r\nContent-Length: 0\r\n"), 200, then::kept},
    {"Connection twice, once close", headed("Connection: keep-alive\r\nConnection: close\r\nContent-Length: 0\r\n"),
     200, then::closed},
    // What is odd and has one reading.
    {"a method that nobody knows", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 200, then::kept},
    {"a method that is no token", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400, then::closed},
    {"an upgrade", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 200, then::kept},
    {"a tunnel", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 400, then::closed},
};

}  // namespace

TEST_CASE_FIXTURE(live_server,
                  "the smuggling table: each request has its answer, and what follows it is read as one or never")
{
    int served = 0;
    for (auto const& r : table) {
        auto const& [name, bytes, status, connection] = r;
        CAPTURE(r.name);
        auto client = connect();
        client.send(bytes + get("/hidden/1") + get("/hidden/2"));
        auto const answer = client.read_answer();
        CHECK(answer.status == status);
        CHECK(answer.has(connection == then::kept ? "Connection: keep-alive" : "Connection: close"));
        if (status == 200) ++served;
        else CHECK(answer.has("Content-Type: application/problem+json"));
        if (connection == then::kept) {
            served += 2;
            CHECK(client.read_answer().body == "GET /hidden/1 ");
            CHECK(client.read_answer().body == "GET /hidden/2 ");
        }
        else {
            CHECK(client.is_closed());
        }
        CHECK(handled.load() == served);
    }
}

TEST_CASE_FIXTURE(live_server, "a bare LF in the framing of chunks is 400 at once, though nothing follows it")
{
    for (std::string const chunks : {"5\nhello\n0\n\n", "5\r\nhello\r\n0\n\n", "5\r\nhello\r\n0\r\n\n", "0\n\n"}) {
        CAPTURE(chunks);
        auto client = connect();
        client.send(chunked(chunks));
        CHECK(client.read_answer().status == 400);
        CHECK(client.is_closed());
    }
    CHECK(handled.load() == 0);
}
