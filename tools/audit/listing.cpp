#include "audit/listing.hpp"

#include "audit/json_line.hpp"
#include "audit/pipe.hpp"

#include <fmt/format.h>

#include <charconv>

namespace skald::audit {
namespace {

constexpr std::size_t line_bytes_max = std::size_t{1024} * 1024;
constexpr std::size_t quoted_max = 120;

constexpr auto what_to_do =
    "nothing was compared. Run the command by itself, with SKALD_AUDIT_SINCE and SKALD_AUDIT_UNTIL set, and correct it";

std::optional<std::size_t> read_count(std::optional<std::string> const& text)
{
    std::size_t count{};
    if (!text) return std::nullopt;
    auto const [end, error] = std::from_chars(text->data(), text->data() + text->size(), count);
    if (error != std::errc{} || end != text->data() + text->size()) return std::nullopt;
    return count;
}

}  // namespace

void listing_reader::refuse(std::string const& why) const
{
    throw listing_refused{fmt::format("--against: {}; {}", why, what_to_do)};
}

void listing_reader::read_line(std::string_view line)
{
    ++lines_;
    auto const refuse_line = [&](std::string const& why) {
        refuse(fmt::format("line {}: {}: {}", lines_, why, line.substr(0, quoted_max)));
    };
    if (has_end_) refuse_line("it comes after the line that says that it is the last");
    auto read = read_json_line(line);
    if (!read.wrong.empty()) refuse_line(read.wrong);

    for (auto const& name : options_.compare)
        if (read.nested.contains(name))
            refuse_line(fmt::format("\"{}\", which is to be compared, is no single value", name));
    auto const key = read.members.find("key");
    if (auto const end = read.members.find("end"); key == read.members.end() && end != read.members.end()) {
        auto const count = read_count(end->second);
        if (!count) refuse_line("\"end\" is not a number of lines");
        if (*count != to_.count())
            refuse_line(fmt::format("{} objects came before it, so some are missing or are too many", to_.count()));
        has_end_ = true;
        return;
    }
    if (key == read.members.end() || !key->second || key->second->empty()) refuse_line("it has no \"key\"");
    entry one{std::move(*key->second), {}};
    for (auto const& name : options_.compare) {
        auto const member = read.members.find(name);
        if (member == read.members.end()) refuse_line(fmt::format("it lacks \"{}\", which is to be compared", name));
        one.values.push_back(std::move(member->second));
    }
    to_.add(std::move(one));
}

void listing_reader::finish() const
{
    if (has_end_) return;
    if (options_.needs_end)
        refuse(fmt::format("it ended after {} lines without {{\"end\": N}}, so it may have been cut short", lines_));
    if (lines_ == 0) refuse("it printed nothing. If the other side really has nothing, let it print {\"end\": 0}");
}

void read_listing(listing_options const& options, sorted_entries& to)
{
    listing_reader reader{options, to};
    auto const refuse = [](std::string const& why) {
        throw listing_refused{fmt::format("--against: {}; {}", why, what_to_do)};
    };
    pipe_from command{options.command, options.variables};
    std::string rest;
    for (auto part = command.read(); !part.empty(); part = command.read()) {
        std::string_view left = part;
        for (auto end = left.find('\n'); end != std::string_view::npos; end = left.find('\n')) {
            rest += left.substr(0, end);
            reader.read_line(rest);
            rest.clear();
            left.remove_prefix(end + 1);
        }
        rest += left;
        if (rest.size() > line_bytes_max) refuse("it printed a line of more than 1 MiB");
    }
    if (auto const how = command.wait(); !how.empty()) refuse("it " + how);
    if (!rest.empty())
        refuse(fmt::format("its output ends within a line, so it was cut short: {}", rest.substr(0, quoted_max)));
    reader.finish();
}

}  // namespace skald::audit
