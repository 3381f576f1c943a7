// What the other side has: a command prints it, one JSON object a line.
//
// What it did not print does not exist over there, so the output must be all there is: a command that fails, is cut
// short or prints anything else is refused, and nothing is said about anybody's records.
#pragma once

#include "audit/sorted_entries.hpp"

#include <skald/errors.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::audit {

/// Says what is wrong with the command or its output, and what to do.
class listing_refused : public configuration_error
{
public:
    using configuration_error::configuration_error;
};

struct listing_options
{
    std::string command;                                         // for a shell; a part that fails, fails all of it
    std::vector<std::string> compare;                            // members next to `key`
    std::vector<std::pair<std::string, std::string>> variables;  // added to the command's environment
    bool needs_end{};                                            // without {"end": N} the output is not believed
};

/// Lines of a listing, one after the other.
class listing_reader
{
public:
    listing_reader(listing_options const& options, sorted_entries& to) : options_{options}, to_{to} {}

    /// Throws listing_refused.
    void read_line(std::string_view line);

    /// After the last one. Throws listing_refused if that can't have been all.
    void finish() const;

private:
    [[noreturn]] void refuse(std::string const& why) const;

    listing_options const& options_;
    sorted_entries& to_;
    std::size_t lines_{};
    bool has_end_{};
};

/// Runs the command to its end. Its standard error is ours, and its input is empty. Throws listing_refused.
void read_listing(listing_options const& options, sorted_entries& to);

}  // namespace skald::audit
