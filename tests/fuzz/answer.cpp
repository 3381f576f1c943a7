// A handler's answer: where no flaw is found in it, its head on the wire is what was said and no more. Whoever chooses
// a value must not be able to write headers, or a second answer.
//
// Input: status, a NUL; the content type, a NUL; then names and values of headers, each with its NUL.
#include <algorithm>
#include <charconv>
#include <string>

#include "demand.hpp"
#include "http/chars.hpp"
#include "http/response_head.hpp"

using namespace skald;
using skald::fuzz::demand;
using skald::fuzz::take_until;

namespace {

http::response read_answer(std::string_view input)
{
    http::response answer;
    auto const status = take_until(input, '\0');
    std::from_chars(status.data(), status.data() + status.size(), answer.status);
    answer.content_type = take_until(input, '\0');
    while (!input.empty()) {
        auto const name = take_until(input, '\0');
        answer.headers.emplace_back(name, take_until(input, '\0'));
    }
    return answer;
}

void check_lines(std::string_view head, http::response const& answer)
{
    demand(head.ends_with("\r\n\r\n"), "a head ends in an empty line");
    head.remove_suffix(2);
    std::size_t lines = 0;
    std::size_t length_lines = 0;
    std::size_t said = 0;
    while (!head.empty()) {
        auto line = take_until(head, '\n');
        demand(line.ends_with('\r'), "lines end in CRLF");
        line.remove_suffix(1);
        demand(!line.empty() && line.find('\r') == std::string_view::npos, "no empty line and no CR within");
        if (lines++ == 0) continue;
        auto const name = line.substr(0, line.find(':'));
        demand(http::is_token(name), "each line is a field");
        length_lines += http::equal_ignoring_case(name, "Content-Length") ? 1u : 0u;
        said += std::ranges::any_of(answer.headers, [&](auto const& h) { return line == h.first + ": " + h.second; });
    }
    demand(length_lines == (http::may_have_body(answer.status) ? 1 : 0), "the length is given once, or not at all");
    demand(said == answer.headers.size(), "each header of the answer is a line, as it was said");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
    auto const answer = read_answer(fuzz::text_of(data, size));
    if (!http::flaw_of(answer).empty()) return 0;
    for (bool const stays : {true, false})
        check_lines(http::response_head(answer, {.keep_alive = stays, .date = std::chrono::sys_seconds{}}), answer);
    return 0;
}
