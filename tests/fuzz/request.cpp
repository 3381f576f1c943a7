// A connection's bytes: the same requests come out however they are cut, none is beyond a limit, each that is written
// anew is read as the same request, and a second parser, Boost.Beast's, reads them in the same way and ends where ours
// does.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "demand.hpp"
#include "http/chars.hpp"
#include "http/request_reader.hpp"
#include "http/router.hpp"
#include "http/target.hpp"

using namespace skald;
using skald::fuzz::demand;
using progress = http::request_reader::progress;

namespace {

http_limits const limits{
    .request_line_bytes_max = 256, .header_bytes_max = 1024, .header_count_max = 12, .body_bytes_max = 512};

struct reading
{
    std::vector<http::request> requests;
    int refused{};  // the status; 0 if the bytes only end
};

bool are_same(http::request const& a, http::request const& b)
{
    return a.method == b.method && a.target == b.target && a.path == b.path && a.query == b.query &&
           a.headers == b.headers && a.body == b.body;
}

reading read_in_pieces(std::string_view bytes, std::size_t piece_size)
{
    http::request_reader reader{limits};
    reading seen;
    for (;;) {
        auto const now = reader.advance();
        if (now == progress::refused) {
            seen.refused = reader.why().status;
            return seen;
        }
        if (now == progress::complete) {
            seen.requests.push_back(reader.take());
            if (!reader.keeps_alive()) return seen;
            continue;
        }
        if (bytes.empty()) return seen;
        auto const piece = bytes.substr(0, piece_size);
        bytes.remove_prefix(piece.size());
        reader.append(piece);
    }
}

void check_same(reading const& whole, std::string_view bytes, std::size_t piece_size)
{
    auto const cut = read_in_pieces(bytes, piece_size);
    demand(std::ranges::equal(whole.requests, cut.requests, are_same), "the same requests, however the bytes are cut");
    demand(whole.refused == cut.refused, "refused for the same reason, however the bytes are cut");
}

// Beast accepts more than we do: what it makes of what we refuse is not asked.
void check_by_another_parser(std::vector<http::request> const& requests, std::string_view bytes)
{
    namespace beast = boost::beast;
    for (auto const& ours : requests) {
        beast::http::request_parser<beast::http::string_body> parser;
        parser.eager(true);
        parser.header_limit(std::numeric_limits<std::uint32_t>::max());
        beast::error_code error;
        while (!error && !parser.is_done()) {
            auto const used = parser.put(boost::asio::buffer(bytes), error);
            bytes.remove_prefix(used);
        }
        if (error == beast::http::error::bad_value) return;  // Beast reads Proxy-Connection too, and in a trailer
        demand(!error, "another parser accepts what ours accepts");
        auto const& theirs = parser.get();
        demand(theirs.method_string() == ours.method && theirs.target() == ours.target && theirs.body() == ours.body,
               "another parser reads the same request");
    }
}

bool is_named(std::pair<std::string, std::string> const& header, std::string_view name)
{
    return http::equal_ignoring_case(header.first, name);
}

long count_of(http::request const& r, std::string_view name)
{
    return std::ranges::count_if(r.headers, [&](auto const& header) { return is_named(header, name); });
}

void check(http::request const& r)
{
    demand(http::is_token(r.method), "a method is a token");
    demand(r.headers.size() <= limits.header_count_max, "no more headers than allowed");
    demand(r.body.size() <= limits.body_bytes_max, "no body larger than allowed");
    demand(std::ranges::none_of(r.path, http::is_control), "no control byte in a path");
    demand(count_of(r, "Host") <= 1 && count_of(r, "Content-Length") <= 1,
           "what must be there once is not there twice");
    demand(count_of(r, "Content-Length") == 0 || count_of(r, "Transfer-Encoding") == 0, "one framing");
    for (auto const& [name, value] : r.headers)
        demand(http::is_token(name) && std::ranges::all_of(value, http::is_field_char), "headers are fields");
}

/// As a careful client would write it.
std::string written(http::request const& r)
{
    std::string text = r.method + ' ' + r.target + " HTTP/1.1\r\n";
    if (count_of(r, "Host") == 0) text += "Host: h\r\n";  // HTTP/1.0 has none
    bool const is_chunked = count_of(r, "Transfer-Encoding") > 0;
    for (auto const& [name, value] : r.headers) text += name + ": " + value + "\r\n";
    text += "\r\n";
    if (!is_chunked) return text + r.body;
    if (r.body.empty()) return text + "0\r\n\r\n";
    char size[20];
    std::snprintf(size, sizeof size, "%zx", r.body.size());
    return text + size + "\r\n" + r.body + "\r\n0\r\n\r\n";
}

void check_written_anew(http::request const& r)
{
    auto const text = written(r);
    auto const head_bytes = text.find("\r\n\r\n") + 4;
    bool const fits = head_bytes <= limits.header_bytes_max && r.headers.size() < limits.header_count_max &&
                      text.find('\r') <= limits.request_line_bytes_max;
    if (!fits || count_of(r, "Expect") > 0) return;         // HTTP/1.0 knows no Expect, and lets it be anything
    if (r.target.find("://") != std::string::npos) return;  // names a host, which the Host header must repeat
    auto const again = read_in_pieces(text, text.size());
    demand(again.refused == 0 && again.requests.size() == 1, "a request that is written anew is one request");
    auto const& same = again.requests.front();
    demand(same.method == r.method && same.path == r.path && same.query == r.query && same.body == r.body,
           "a request that is written anew is the same");
}

void check_routes(http::request const& r)
{
    static http::router const routes = [] {
        http::router made;
        made.add("POST", "/orders");
        made.add("GET", "/sagas/{key}");
        made.add("GET", "/{a}/{b}/c");
        return made;
    }();
    auto const found = routes.find(r);
    if (auto const* match = std::get_if<http::route_match>(&found)) {
        for (auto const& [name, value] : match->parameters)
            demand(std::ranges::none_of(value, http::is_control), "no control byte in a parameter");
        if (match->route == 1 && match->parameters.contains("key"))
            demand(http::percent_decode(http::percent_encode_segment(match->parameters.at("key"))) ==
                       match->parameters.at("key"),
                   "a key that is escaped for a path is the same key");
    }
    else {
        auto const status = std::get<http::response>(found).status;
        demand(status == 404 || status == 405, "what has no route is not found, or has another method");
    }
    (void)http::query_parameter(r.query, "wait");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
    if (size == 0) return 0;
    auto const bytes = fuzz::text_of(data + 1, size - 1);
    auto const whole = read_in_pieces(bytes, bytes.size() + 1);
    check_same(whole, bytes, 1u + data[0]);
    check_by_another_parser(whole.requests, bytes);
    for (auto const& one : whole.requests) {
        check(one);
        check_written_anew(one);
        check_routes(one);
    }
    return 0;
}
