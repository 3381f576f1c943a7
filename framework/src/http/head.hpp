// The head of a request: everything up to and including the empty line.
//
// If two programs disagree about where a request ends, one client's bytes can become another's request. So only one
// form is accepted, and all that has ever been read in two ways is refused (docs/adr/0033-one-parser-of-our-own.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <skald/config.hpp>
#include <skald/http.hpp>

#include "http/incoming_bytes.hpp"
#include "http/refusal.hpp"

namespace skald::http {

struct request_head
{
    request message;       // without its body
    int minor_version{1};  // of HTTP/1.x
    // What the headers say about this request and its connection.
    bool is_chunked{false};
    std::optional<std::uint64_t> content_length;
    bool keep_alive{true};
    bool expects_continue{false};

    bool has_body() const { return is_chunked || content_length.value_or(0) > 0; }
};

/// Reads one head, line by line as the lines arrive.
class head_reader
{
public:
    or_refusal<arrival> read(incoming_bytes& from, http_limits const& limits);

    request_head& head() { return head_; }
    request_head const& head() const { return head_; }

private:
    or_refusal<std::optional<std::string_view>> take_line(incoming_bytes& from, http_limits const& limits) const;
    std::optional<refusal> add(std::string_view line, http_limits const& limits);

    request_head head_;
    std::size_t bytes_{0};  // of the lines so far, with their ends
};

/// The name and the value of a header, without the whitespace around the value.
or_refusal<std::pair<std::string_view, std::string_view>> parse_field(std::string_view line);

/// What the target and the fields mean in combination. Fills in the rest of `head`.
std::optional<refusal> apply_head_rules(request_head& head, http_limits const& limits);

}  // namespace skald::http
