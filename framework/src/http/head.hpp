// The head of a request: everything up to and with the empty line.
//
// Two programs that read one request differently can be made to disagree about where it ends, and then one client's
// bytes become another's request. So this reads one form only and refuses whatever has ever been read in two ways;
// Boost.Beast, which frames the body, lets some of it through (bare LF, folded lines, Transfer-Encoding beside
// Content-Length, chunks on HTTP/1.0). After a refusal the connection must close: nobody knows where the next
// request would begin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <skald/http.hpp>

#include "http/limits.hpp"
#include "http/problem_types.hpp"

namespace skald::http {

/// Why a request isn't read any further.
struct refusal
{
    int status{400};
    std::string_view detail;             // a sentence for the client; static text
    std::optional<problem_type> type{};  // where it has one
};

inline constexpr refusal body_too_large{413, "The body is too large."};

struct request_head
{
    std::string method;
    std::string target;
    int minor_version{1};  // of HTTP/1.x
    header_list headers;   // values without the whitespace around them
    // What the headers say about this request and its connection.
    bool is_chunked{false};
    std::optional<std::uint64_t> content_length;
    bool keep_alive{true};
    bool expects_continue{false};

    bool has_body() const { return is_chunked || content_length.value_or(0) > 0; }
};

/// Finds the end of the head in bytes that arrive in pieces. What can be refused before the end is: a limit passed, a
/// line that ends in a bare LF.
class head_scanner
{
public:
    explicit head_scanner(request_limits const& limits) : limits_{limits} {}

    /// `bytes` are all bytes since the beginning of the request. Returns the size of the head, 0 if more is needed.
    std::variant<std::size_t, refusal> scan(std::string_view bytes);

private:
    bool is_beyond_request_line(std::size_t column, char c) const;

    request_limits limits_;
    std::size_t scanned_{0};
    std::size_t line_start_{0};
    bool in_request_line_{true};
};

/// `text` is the whole head, with its empty line.
std::variant<request_head, refusal> parse_head(std::string_view text, request_limits const& limits);

/// The second half of parse_head(): what the fields mean together. Fills in the rest of `head`.
std::optional<refusal> apply_head_rules(request_head& head, request_limits const& limits);

}  // namespace skald::http
