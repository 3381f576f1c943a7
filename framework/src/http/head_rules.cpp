// What the fields of a head mean in combination: where the body ends, which host is addressed, whether to keep alive.
#include <algorithm>
#include <charconv>

#include "http/chars.hpp"
#include "http/head.hpp"
#include "http/target.hpp"

namespace skald::http {
namespace {

constexpr refusal duplicate_length{400, "Content-Length must be given once."};
constexpr refusal bad_length{400, "Content-Length must be a decimal number."};
constexpr refusal coding_on_http10{400, "HTTP/1.0 has no Transfer-Encoding."};
constexpr refusal coding_and_length{400, "Transfer-Encoding and Content-Length exclude each other."};
constexpr refusal bad_coding{400, "The only supported Transfer-Encoding is chunked."};
constexpr refusal not_one_host{400, "The request must have one Host header."};
constexpr refusal bad_host{400, "The Host header is malformed."};
constexpr refusal bad_connection{400, "The Connection header is malformed."};
constexpr refusal bad_expectation{417, "The only supported expectation is 100-continue."};

struct occurrences
{
    std::size_t count{0};
    std::string_view first;
};

occurrences find_all(header_list const& headers, std::string_view name)
{
    occurrences found;
    for (auto const& [field, value] : headers)
        if (equal_ignoring_case(field, name) && found.count++ == 0) found.first = value;
    return found;
}

std::optional<refusal> read_length(request_head& head, std::string_view text, http_limits const& limits)
{
    if (text.empty()) return bad_length;
    for (char const c : text)
        if (!is_digit(c)) return bad_length;  // no sign, and no list: "5, 5" would be two lengths

    std::uint64_t length = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (error != std::errc{} || length > limits.body_bytes_max) return body_too_large;
    head.content_length = length;
    return {};
}

/// The end of the body must not be open to interpretation.
std::optional<refusal> read_framing(request_head& head, http_limits const& limits)
{
    auto const length = find_all(head.message.headers, "Content-Length");
    auto const coding = find_all(head.message.headers, "Transfer-Encoding");
    if (coding.count > 0) {
        if (head.minor_version == 0) return coding_on_http10;
        if (length.count > 0) return coding_and_length;
        if (coding.count > 1 || coding.first != "chunked") return bad_coding;
        head.is_chunked = true;
        return {};
    }
    if (length.count > 1) return duplicate_length;
    return length.count == 1 ? read_length(head, length.first, limits) : std::nullopt;
}

bool is_host_char(char c)
{
    return is_alpha(c) || is_digit(c) || std::string_view{"-._~%!$&'()*+;=:[]"}.find(c) != std::string_view::npos;
}

std::optional<refusal> check_host(request_head const& head)
{
    auto const host = find_all(head.message.headers, "Host");
    if (host.count > 1 || (host.count == 0 && head.minor_version > 0)) return not_one_host;
    if (host.count == 0) return {};
    bool const is_host = !host.first.empty() && std::ranges::all_of(host.first, is_host_char);
    return is_host ? std::nullopt : std::optional{bad_host};
}

std::optional<refusal> read_connection(request_head& head)
{
    bool closes = false;
    bool keeps = head.minor_version > 0;
    for (auto const& [field, value] : head.message.headers) {
        if (!equal_ignoring_case(field, "Connection")) continue;
        for (std::string_view rest = value; !rest.empty();) {
            auto const item = rest.substr(0, rest.find(','));
            rest.remove_prefix(std::min(item.size() + 1, rest.size()));
            auto const option = trimmed(item);
            if (!option.empty() && !is_token(option)) return bad_connection;
            closes = closes || equal_ignoring_case(option, "close");
            keeps = keeps || equal_ignoring_case(option, "keep-alive");
        }
    }
    head.keep_alive = keeps && !closes;
    return {};
}

std::optional<refusal> read_expectation(request_head& head)
{
    auto const expect = find_all(head.message.headers, "Expect");
    if (expect.count == 0 || head.minor_version == 0) return {};
    if (expect.count > 1 || !equal_ignoring_case(expect.first, "100-continue")) return bad_expectation;
    head.expects_continue = true;
    return {};
}

}  // namespace

std::optional<refusal> apply_head_rules(request_head& head, http_limits const& limits)
{
    if (auto const no = check_host(head)) return no;
    if (auto const why = read_target(head.message); !why.empty()) return refusal{.status = 400, .detail = why};
    if (auto const no = read_framing(head, limits)) return no;
    if (auto const no = read_connection(head)) return no;
    return read_expectation(head);
}

}  // namespace skald::http
