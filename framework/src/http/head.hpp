// The head of a request: everything up to and including the empty line.
//
// If two programs disagree about where a request ends, one client's bytes can become another's request. So this parser
// accepts only one form and refuses everything that has ever been read in two ways. Boost.Beast, which frames the body,
// accepts some of it (bare LF, folded lines, Transfer-Encoding next to Content-Length, chunks on HTTP/1.0). After a
// refusal the connection must close, because the start of the next request is unknown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <skald/config.hpp>
#include <skald/http.hpp>

#include "http/problem_types.hpp"

namespace skald::http {

/// Why a request is not read any further.
struct refusal
{
    int status{400};
    std::string_view detail;             // a sentence for the client; static text
    std::optional<problem_type> type{};  // if it has one
};

inline constexpr refusal body_too_large{413, "The body is too large."};

struct request_head
{
    std::string method;
    std::string target;
    int minor_version{1};  // of HTTP/1.x
    header_list headers;   // values without surrounding whitespace
    // What the headers say about this request and its connection.
    bool is_chunked{false};
    std::optional<std::uint64_t> content_length;
    bool keep_alive{true};
    bool expects_continue{false};

    bool has_body() const { return is_chunked || content_length.value_or(0) > 0; }
};

/// Finds the end of the head in bytes that arrive in pieces. Refuses as early as possible: as soon as a limit is
/// exceeded or a line ends in a bare LF.
class head_scanner
{
public:
    explicit head_scanner(http_limits const& limits) : limits_{limits} {}

    /// `bytes` holds everything since the beginning of the request. Returns the size of the head, or 0 if more is
    /// needed.
    std::variant<std::size_t, refusal> scan(std::string_view bytes);

private:
    bool is_beyond_request_line(std::size_t column, char c) const;

    http_limits limits_;
    std::size_t scanned_{0};
    std::size_t line_start_{0};
    bool in_request_line_{true};
};

/// `text` is the whole head, including its empty line.
std::variant<request_head, refusal> parse_head(std::string_view text, http_limits const& limits);

/// The second half of parse_head(): what the fields mean in combination. Fills in the rest of `head`.
std::optional<refusal> apply_head_rules(request_head& head, http_limits const& limits);

}  // namespace skald::http
