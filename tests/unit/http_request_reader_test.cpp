#include <doctest/doctest.h>

#include <vector>

#include "http/request_reader.hpp"

using namespace skald::http;
using namespace std::string_literals;
using progress = request_reader::progress;

namespace {

skald::http_limits const limits{
    .request_line_bytes_max = 1024, .header_bytes_max = 2048, .header_count_max = 16, .body_bytes_max = 100};

std::string sized(std::string const& body)
{
    return "POST /orders?x=1 HTTP/1.1\r\nHost: shop\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           body;
}

std::string chunked(std::string const& chunks)
{
    return "POST /orders HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks;
}

/// How the reader ends when it is given `bytes` in pieces of `size`.
progress outcome(request_reader& reader, std::string_view bytes, std::size_t size)
{
    auto now = reader.advance();
    while (!bytes.empty() && (now == progress::needs_head || now == progress::needs_body)) {
        auto const piece = bytes.substr(0, size);
        bytes.remove_prefix(piece.size());
        reader.append(piece);
        now = reader.advance();
    }
    return now;
}

request read_one(std::string const& bytes)
{
    request_reader reader{limits};
    REQUIRE(outcome(reader, bytes, bytes.size()) == progress::complete);
    return reader.take();
}

int refusal_of(std::string const& bytes)
{
    request_reader whole{limits};
    request_reader pieces{limits};
    REQUIRE(outcome(whole, bytes, bytes.size()) == progress::refused);
    REQUIRE(outcome(pieces, bytes, 1) == progress::refused);
    CHECK(whole.why().status == pieces.why().status);
    return whole.why().status;
}

}  // namespace

TEST_CASE("a request is the same however its bytes are cut")
{
    for (auto const& bytes : {sized(""), sized("hello"), sized(std::string(100, 'b')),
                              chunked("5\r\nhello\r\n0\r\n\r\n"), chunked("0\r\n\r\n"), chunked("0\r\na:\r\n\r\n"),
                              chunked("1\r\nh\r\n4;ext=\"a b\"\r\nello\r\n00\r\nTrailer: x\r\n\r\n")}) {
        auto const expected = read_one(bytes);
        for (std::size_t size = 1; size < bytes.size(); ++size) {
            request_reader reader{limits};
            REQUIRE(outcome(reader, bytes, size) == progress::complete);
            auto const got = reader.take();
            REQUIRE(got.body == expected.body);
            REQUIRE(got.headers == expected.headers);
            REQUIRE_FALSE(reader.has_bytes());
        }
    }
}

TEST_CASE("a request carries its parts")
{
    auto const got = read_one("PUT /a%20b/c?d=%20e HTTP/1.1\r\nHost: shop\r\nContent-Length: 3\r\n\r\n\0\r\n"s);
    CHECK(got.method == "PUT");
    CHECK(got.target == "/a%20b/c?d=%20e");
    CHECK(got.path == "/a b/c");
    CHECK(got.query == "d=%20e");
    CHECK(got.header("hOST") == "shop");
    CHECK(got.header("Missing") == "");
    CHECK(got.body == "\0\r\n"s);
}

TEST_CASE("requests that arrive together come out one by one, in order")
{
    request_reader reader{limits};
    auto const bytes =
        sized("one") + chunked("3\r\ntwo\r\n0\r\n\r\n") + "GET /three HTTP/1.1\r\nHost: shop\r\n\r\n" + "GET /fo";
    reader.append(bytes);
    std::vector<std::string> bodies;
    for (int i = 0; i < 2; ++i) {
        REQUIRE(reader.advance() == progress::complete);
        bodies.push_back(reader.take().body);
    }
    CHECK(bodies == std::vector<std::string>{"one", "two"});
    REQUIRE(reader.advance() == progress::complete);
    CHECK(reader.take().path == "/three");
    CHECK(reader.has_bytes());
    CHECK(reader.advance() == progress::needs_head);
}

TEST_CASE("a chunked body is the chunks' content, and a trailer is no header")
{
    auto const got = read_one(chunked("5;a=b\r\nhello\r\n1;c\r\n \r\nA\r\n0123456789\r\n"
                                      "000\r\nIdempotency-Key: forged\r\nHost: other\r\n\r\n"));
    CHECK(got.body == "hello 0123456789");
    CHECK(got.header("Idempotency-Key") == "");
    CHECK(got.header("Host") == "shop");
    CHECK(got.headers.size() == 2);
}

TEST_CASE("a body may have as many bytes as the limit says, and not one more")
{
    CHECK(read_one(sized(std::string(100, 'b'))).body.size() == 100);
    CHECK(refusal_of(sized(std::string(101, 'b'))) == 413);
    CHECK(read_one(chunked("32\r\n" + std::string(50, 'a') + "\r\n32\r\n" + std::string(50, 'b') + "\r\n0\r\n\r\n"))
              .body.size() == 100);
    CHECK(refusal_of(chunked("65\r\n" + std::string(101, 'b') + "\r\n0\r\n\r\n")) == 413);
    CHECK(refusal_of(chunked("64\r\n" + std::string(100, 'b') + "\r\n1\r\nb\r\n0\r\n\r\n")) == 413);
}

TEST_CASE("malformed chunks are refused")
{
    for (auto const& chunks : {
             "x\r\nabc"s,
             "5\nhello\r\n0\r\n\r\n"s,
             "5\r\nhelloX\r\n0\r\n\r\n"s,
             "5\r\nhello\n0\r\n\r\n"s,
             "5 \rhello"s,
             "-5\r\nhello\r\n0\r\n\r\n"s,
             "+5\r\nhello\r\n0\r\n\r\n"s,
             "0x5\r\nhello\r\n0\r\n\r\n"s,
             "\r\n0\r\n\r\n"s,
             "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n"s,
             "5;a=\"\0\"\r\nhello\r\n0\r\n\r\n"s,
             "5;a\nb\r\nhello\r\n0\r\n\r\n"s,
             "5,5\r\nhello\r\n0\r\n\r\n"s,
             "10000000000000005\r\nhello\r\n0\r\n\r\n"s,
             "0;a=\"\n\"\r\n\r\n"s,
             "0\r\nBad Name: x\r\n\r\n"s,
             "0\r\nTransfer-Encoding: chunked\r\n\r\n"s,
             "0\r\nContent-Length: 5\r\n\r\n"s,
             "5\nhello\n0\n\n"s,
             "5\r\nhello\n0\n\n"s,
             "5\r\nhello\r\n0\n\n"s,
             "5\r\nhello\r\n0\r\n\n"s,
             "5\r\nhello\r\n00;a\r\nX: y\r\nA: z\n\r"s,
             "0\n\n"s,
             "0\r\n\n"s,
             "\n"s,
         }) {
        CAPTURE(chunks);
        CHECK(refusal_of(chunked(chunks)) == 400);
    }
}

TEST_CASE("a line feed in a chunk's data is data, wherever the bytes are cut")
{
    std::vector<std::string> const bodies{"\n"s, "\n\n"s, "0\n\n"s, "\r\n0\n"s, "0\r\n\r\n"s};
    for (auto const& first : bodies)
        for (auto const& second : bodies) {
            auto const chunk = [](std::string const& data) {
                return "0" + std::to_string(data.size()) + "\r\n" + data + "\r\n";
            };
            auto const bytes = chunked(chunk(first) + chunk(second) + "0\r\nTrailer: x\r\nB: y\r\n\r\n");
            for (std::size_t size = 1; size <= bytes.size(); ++size) {
                request_reader reader{limits};
                REQUIRE(outcome(reader, bytes, size) == progress::complete);
                REQUIRE(reader.take().body == first + second);
            }
        }
}

TEST_CASE("the framing of chunks is bounded: a size line or a trailer can't grow for ever")
{
    CHECK(refusal_of(chunked("5;" + std::string(4000, 'a'))) == 400);
    CHECK(refusal_of(chunked("0\r\nX: " + std::string(4000, 'a'))) == 400);
    std::string extended, padded;
    for (int chunk = 0; chunk < 50; ++chunk) {
        extended += "1;" + std::string(98, 'a') + "\r\nx\r\n";
        padded += std::string(99, '0') + "1\r\nx\r\n";
    }
    CHECK(refusal_of(chunked(extended + "0\r\n\r\n")) == 400);
    CHECK(refusal_of(chunked(padded + "0\r\n\r\n")) == 400);
}

TEST_CASE("100 Continue is due when the client asked for it and has sent none of the body")
{
    auto const head = "POST / HTTP/1.1\r\nHost: shop\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"s;
    request_reader waits{limits};
    CHECK(outcome(waits, head, head.size()) == progress::needs_body);
    CHECK(waits.awaits_continue());
    CHECK(outcome(waits, "hello", 5) == progress::complete);

    request_reader impatient{limits};
    CHECK(outcome(impatient, head + "he", head.size() + 2) == progress::needs_body);
    CHECK_FALSE(impatient.awaits_continue());

    request_reader silent{limits};
    auto const other = sized("hello").substr(0, sized("hello").size() - 5);
    CHECK(outcome(silent, other, other.size()) == progress::needs_body);
    CHECK_FALSE(silent.awaits_continue());
}

TEST_CASE("the connection stays as the last request said")
{
    request_reader reader{limits};
    reader.append("GET / HTTP/1.1\r\nHost: shop\r\n\r\nGET / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n");
    REQUIRE(reader.advance() == progress::complete);
    reader.take();
    CHECK(reader.keeps_alive());
    REQUIRE(reader.advance() == progress::complete);
    reader.take();
    CHECK_FALSE(reader.keeps_alive());
}

TEST_CASE("after a refusal nothing is read: what follows may be a request that the client never sent")
{
    request_reader reader{limits};
    reader.append("POST / HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello" +
                  sized("x"));
    CHECK(reader.advance() == progress::refused);
    CHECK(reader.advance() == progress::refused);
    CHECK_FALSE(reader.keeps_alive());
}
