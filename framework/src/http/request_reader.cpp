#include "http/request_reader.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "core/assert.hpp"
#include "http/chars.hpp"
#include "http/target.hpp"

namespace skald::http {
namespace {

namespace beast = boost::beast;

constexpr refusal malformed_head{400, "The request is malformed."};
constexpr refusal malformed_body{400, "The body's chunks are malformed."};
constexpr refusal framing_too_large{400, "The framing of the body's chunks is too large."};

// Beast gets no fewer bytes than the last chunk has, "0\r\n\r\n": an incomplete chunked body needs at least those.
// Beast 1.81 relies on it: given "0\r\n" and then a single further byte, it aborts if assertions are enabled.
constexpr std::size_t last_chunk_bytes = 5;

// Checks the framing between the data of two chunks, or after the last: the end of the previous chunk, a size line and,
// after a size of zero, the trailer. Beast looks only for CRLF, and would wait for more until the body's time is up.
bool has_bare_line_feed(std::string_view framing)
{
    std::size_t line = 0;
    bool is_trailer = false;
    for (auto end = framing.find('\n'); end != std::string_view::npos; end = framing.find('\n', line)) {
        if (end == line || framing[end - 1] != '\r') return true;
        auto const text = framing.substr(line, end - 1 - line);
        auto const digit = text.find_first_not_of('0');
        bool const is_zero = !text.empty() && (digit == std::string_view::npos || hex_value(text[digit]) < 0);
        if (!text.empty() && !is_zero && !is_trailer) return false;  // a chunk's data follows, which may be anything
        is_trailer = is_trailer || is_zero;
        line = end + 1;
    }
    return false;
}

}  // namespace

/// Boost.Beast's parser, which finds the end of the body.
class request_reader::body_framing
{
public:
    explicit body_framing(http_limits const& limits)
    {
        parser_.header_limit(std::numeric_limits<std::uint32_t>::max());  // the head's limits were checked already
        parser_.body_limit(limits.body_bytes_max);
        parser_.on_chunk_header(check_extensions_);
    }

    /// Whether Beast reads the same text in the same way.
    bool agrees(std::string_view head_text, request_head const& head)
    {
        beast::error_code error;
        parser_.eager(false);
        auto const consumed = put(head_text, error);
        parser_.eager(true);
        return !error && consumed == head_text.size() && parser_.chunked() == head.is_chunked &&
               parser_.content_length().value_or(0) == head.content_length.value_or(0) &&
               parser_.is_done() == !head.has_body();
    }

    /// Returns how many bytes it consumed.
    std::size_t put(std::string_view bytes, beast::error_code& error)
    {
        return parser_.put(boost::asio::const_buffer{bytes.data(), bytes.size()}, error);
    }

    bool is_done() const { return parser_.is_done(); }
    bool has_data_to_come() const { return parser_.get().body().size() < announced_; }
    std::string& body() { return parser_.get().body(); }

private:
    beast::http::request_parser<beast::http::string_body> parser_;
    std::uint64_t announced_{};  // total of the size lines so far; bounded by the body limit

    /// Beast accepts a bare LF inside a quoted extension, where another program may see the end of the line.
    std::function<void(std::uint64_t, beast::string_view, beast::error_code&)> check_extensions_ =
        [this](std::uint64_t size, beast::string_view extensions, beast::error_code& error) {
            announced_ += size;
            for (char const c : extensions)
                if (!is_field_char(c)) error = beast::http::error::bad_chunk_extension;
        };
};

request_reader::request_reader(http_limits const& limits) : limits_{limits}, scanner_{limits} {}
request_reader::~request_reader() = default;

void request_reader::append(std::string_view bytes)
{
    received_ += bytes;
}

request_reader::progress request_reader::advance()
{
    if (state_ == progress::needs_head) state_ = read_head();
    if (state_ == progress::needs_body) state_ = read_body();
    return state_;
}

bool request_reader::awaits_continue() const
{
    return state_ == progress::needs_body && head_.expects_continue && !body_has_begun_;
}

request_reader::progress request_reader::read_head()
{
    auto const scanned = scanner_.scan(received_);
    if (auto const* no = std::get_if<refusal>(&scanned)) return refuse(*no);
    auto const size = std::get<std::size_t>(scanned);
    if (size == 0) return progress::needs_head;

    auto parsed = parse_head(std::string_view{received_}.substr(0, size), limits_);
    if (auto const* no = std::get_if<refusal>(&parsed)) return refuse(*no);
    head_ = std::get<request_head>(std::move(parsed));

    framing_ = std::make_unique<body_framing>(limits_);
    if (!framing_->agrees(std::string_view{received_}.substr(0, size), head_)) return refuse(malformed_head);
    received_.erase(0, size);
    body_has_begun_ = !received_.empty();
    return head_.has_body() ? progress::needs_body : progress::complete;
}

request_reader::progress request_reader::read_body()
{
    SKALD_ASSERT(framing_ && !framing_->is_done());
    std::size_t const least = head_.is_chunked ? last_chunk_bytes : 1;
    while (received_.size() >= least) {
        beast::error_code error;
        auto const consumed = framing_->put(received_, error);
        received_.erase(0, consumed);
        body_has_begun_ = true;
        if (error == beast::http::error::body_limit) return refuse(body_too_large);
        if (error && error != beast::http::error::need_more) return refuse(malformed_body);
        if (framing_->is_done()) return progress::complete;
        // What remains is an incomplete size line or trailer.
        if (received_.size() > limits_.header_bytes_max) return refuse(framing_too_large);
        if (consumed == 0) break;
    }
    if (head_.is_chunked && !framing_->has_data_to_come() && has_bare_line_feed(received_))
        return refuse(malformed_body);
    return progress::needs_body;
}

request_reader::progress request_reader::refuse(refusal const& why)
{
    why_ = why;
    keeps_alive_ = false;
    return progress::refused;
}

std::size_t request_reader::body_bytes() const
{
    return framing_ ? framing_->body().size() : 0;
}

std::size_t request_reader::body_bytes_left() const
{
    return static_cast<std::size_t>(head_.content_length.value_or(body_bytes())) - body_bytes();
}

void request_reader::forget()
{
    framing_.reset();
    head_ = {};
    std::string{}.swap(received_);
}

request request_reader::take()
{
    SKALD_ASSERT(state_ == progress::complete && framing_);
    auto parts = split_target(head_.target).value();  // checked by the head's rules, like the path below
    request taken{.method = std::move(head_.method),
                  .target = head_.target,
                  .path = percent_decode(parts.path).value(),
                  .query = std::string{parts.query},
                  .parameters = {},
                  .headers = std::move(head_.headers),
                  .body = std::move(framing_->body())};
    keeps_alive_ = head_.keep_alive;
    head_ = {};
    framing_.reset();
    scanner_ = head_scanner{limits_};
    state_ = progress::needs_head;
    // A connection may be idle for long: do not keep the memory that a large request needed.
    if (received_.empty()) std::string{}.swap(received_);
    return taken;
}

}  // namespace skald::http
