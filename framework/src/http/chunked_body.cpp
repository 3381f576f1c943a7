#include "http/chunked_body.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "http/chars.hpp"
#include "http/head.hpp"

namespace skald::http {
namespace {

constexpr std::size_t size_digits_max = 16;
constexpr refusal malformed{400, "The body's chunks are malformed."};
constexpr refusal framing_too_large{400, "The framing of the body's chunks is too large."};

std::string_view without_blanks(std::string_view text)
{
    return text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
}

/// The length of the token at the beginning of `text`.
std::size_t token_size(std::string_view text)
{
    return static_cast<std::size_t>(std::ranges::find_if_not(text, is_token_char) - text.begin());
}

/// The length of the quoted string at the beginning of `text`; 0 if there is none.
std::size_t quoted_size(std::string_view text)
{
    if (!text.starts_with('"')) return 0;
    for (std::size_t i = 1; i < text.size(); ++i) {
        if (text[i] == '"') return i + 1;
        if (text[i] == '\\') ++i;
    }
    return 0;
}

/// *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] ). A program that looks for the end of a quoted string
/// before it looks for the end of the line would not stop where we do, so it must end here.
bool are_extensions(std::string_view text)
{
    if (!std::ranges::all_of(text, is_field_char)) return false;
    while (!text.empty()) {
        text = without_blanks(text);
        if (!text.starts_with(';')) return false;
        text = without_blanks(text.substr(1));
        auto const name_size = token_size(text);
        if (name_size == 0) return false;
        text.remove_prefix(name_size);

        auto const rest = without_blanks(text);
        if (!rest.starts_with('=')) continue;
        text = without_blanks(rest.substr(1));
        auto const value_size = std::max(token_size(text), quoted_size(text));
        if (value_size == 0) return false;
        text.remove_prefix(value_size);
    }
    return true;
}

std::optional<refusal> check_trailer(std::string_view text)
{
    auto const field = parse_field(text);
    if (!field) return field.error();
    // It would come too late: the end of the body is known by now.
    bool const is_framing =
        equal_ignoring_case(field->first, "Content-Length") || equal_ignoring_case(field->first, "Transfer-Encoding");
    return is_framing ? std::optional{malformed} : std::nullopt;
}

}  // namespace

or_refusal<arrival> chunked_body::read(incoming_bytes& from, std::string& body, http_limits const& limits)
{
    for (;;) {
        auto const data = from.take(data_bytes_left_);
        body += data;
        data_bytes_left_ -= data.size();
        if (data_bytes_left_ > 0) return arrival::incomplete;

        auto const taken = take_line(from, limits);
        if (!taken) return taken.error();
        if (!*taken) return arrival::incomplete;
        auto const text = **taken;
        std::optional<refusal> no;
        switch (next_) {
        case line::size: no = begin_chunk(text, limits.body_bytes_max - body.size()); break;
        case line::end_of_data: next_ = line::size; break;
        case line::trailer:
            if (text.empty()) return arrival::complete;
            no = check_trailer(text);
            framing_bytes_ += text.size();
        }
        if (no) return *no;
    }
}

or_refusal<std::optional<std::string_view>> chunked_body::take_line(incoming_bytes& from,
                                                                    http_limits const& limits) const
{
    if (next_ == line::end_of_data) return from.take_line(0, malformed);
    return from.take_line(limits.header_bytes_max - framing_bytes_, framing_too_large);
}

std::optional<refusal> chunked_body::begin_chunk(std::string_view size_line, std::size_t body_bytes_left)
{
    std::uint64_t size = 0;
    auto const end_of_line = size_line.data() + size_line.size();
    // Digits alone: no sign, no 0x, no space.
    auto const [end, error] = std::from_chars(size_line.data(), end_of_line, size, 16);
    if (error != std::errc{} || !are_extensions({end, end_of_line})) return malformed;
    if (size > body_bytes_left) return body_too_large;
    // What a size needs is bounded by the body; extensions, and zeros in front, are not.
    auto const digits = static_cast<std::size_t>(end - size_line.data());
    framing_bytes_ += size_line.size() - std::min(digits, size_digits_max);
    data_bytes_left_ = static_cast<std::size_t>(size);
    next_ = size > 0 ? line::end_of_data : line::trailer;
    return {};
}

}  // namespace skald::http
