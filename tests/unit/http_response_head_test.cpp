#include <doctest/doctest.h>

#include "http/response_head.hpp"
#include "support/complaint.hpp"

using namespace skald::http;
using skald::test::contains;
using namespace std::chrono_literals;

namespace {

response_frame const kept{.keep_alive = true, .date = std::chrono::sys_days{2026y / 1 / 31} + 12h};

response text_answer(int status = 200)
{
    return {.status = status, .content_type = "text/plain", .headers = {}, .body = "hello"};
}

}  // namespace

TEST_CASE("an answer's head is the status line, the defaults, its own headers and the framing")
{
    auto answer = text_answer(201);
    answer.headers = {{"Location", "/sagas/order-42"}};
    CHECK(response_head(answer, kept) == "HTTP/1.1 201 Created\r\n"
                                         "Date: Sat, 31 Jan 2026 12:00:00 GMT\r\n"
                                         "Server: skald\r\n"
                                         "X-Content-Type-Options: nosniff\r\n"
                                         "Cache-Control: no-store\r\n"
                                         "Location: /sagas/order-42\r\n"
                                         "Content-Type: text/plain\r\n"
                                         "Content-Length: 5\r\n"
                                         "Connection: keep-alive\r\n\r\n");
}

TEST_CASE("a handler's own Cache-Control replaces the default, whatever its case")
{
    auto answer = text_answer();
    answer.headers = {{"cache-control", "max-age=5"}};
    auto const head = response_head(answer, kept);
    CHECK(contains(head, "cache-control: max-age=5\r\n"));
    CHECK_FALSE(contains(head, "no-store"));
}

TEST_CASE("204 and 304 have neither type nor length, an empty 200 has a length")
{
    for (int const status : {204, 304}) {
        CHECK_FALSE(may_have_body(status));
        auto const head = response_head(text_answer(status), kept);
        CHECK_FALSE(contains(head, "\r\nContent-Type"));
        CHECK_FALSE(contains(head, "Content-Length"));
    }
    CHECK(contains(response_head({.status = 200, .content_type = {}, .headers = {}, .body = {}}, kept),
                   "Content-Length: 0\r\n"));
}

TEST_CASE("the connection's end is announced")
{
    auto last = kept;
    last.keep_alive = false;
    CHECK(contains(response_head(text_answer(), last), "\r\nConnection: close\r\n\r\n"));
}

TEST_CASE("an answer that would split or misframe the stream has a flaw")
{
    CHECK(flaw_of(text_answer()) == "");
    for (auto const& r : header_list{{"Location", "/a\r\nSet-Cookie: x"},
                                     {"Location", "/a\n"},
                                     {"Location", "/a\r"},
                                     {"Location", std::string("a\0b", 3)},
                                     {"Location", "\x7f"},
                                     {"", "x"},
                                     {"Lo cation", "x"},
                                     {"Location:", "x"},
                                     {"Location\r\nX", "x"},
                                     {"content-length", "7"},
                                     {"Transfer-Encoding", "chunked"},
                                     {"CONNECTION", "upgrade"},
                                     {"Content-Type", "text/plain"}}) {
        auto const& [name, value] = r;
        CAPTURE(r.first);
        CAPTURE(r.second);
        auto answer = text_answer();
        answer.headers = {{"Fine", "yes"}, {name, value}};
        CHECK(flaw_of(answer) != "");
    }
    auto typed = text_answer();
    typed.content_type = "text/plain\r\nX: y";
    CHECK(flaw_of(typed) != "");
    for (int const status : {0, 100, 101, 199, 600, -1}) CHECK(flaw_of(text_answer(status)) != "");
}
