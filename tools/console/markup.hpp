// HTML and SVG, written so that a text can't become markup by accident: whatever is a string is escaped, and only what
// these functions return is not.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::console {

/// Code that was built by the functions below, or is a literal of ours.
class markup
{
public:
    markup() = default;

    /// Text, escaped. Bytes that are not UTF-8 and control characters are shown as text (core::visible_text), since a
    /// page of UTF-8 has neither.
    template <class Text>
    requires std::convertible_to<Text const&, std::string_view> markup(Text const& text) { append_text(text); }
    markup(std::integral auto number) : code_{std::to_string(number)} {}

    markup& operator+=(markup const& more)
    {
        code_ += more.code_;
        return *this;
    }
    friend markup operator+(markup one, markup const& other) { return one += other; }

    bool empty() const { return code_.empty(); }
    std::string const& code() const { return code_; }

private:
    friend markup raw(std::string_view code);
    void append_text(std::string_view text);
    std::string code_;
};

/// A literal of ours, as it is. Never for what came from anywhere else.
markup raw(std::string_view code);

/// Its value is escaped. Without a value: `required`, `hidden`.
struct attribute
{
    std::string name;
    std::string value{};
    bool has_value{true};

    attribute(std::string_view name_of_it, std::string_view its_value) : name{name_of_it}, value{its_value} {}
    attribute(std::string_view name_of_it, std::integral auto number) : name{name_of_it}, value{std::to_string(number)}
    {}
    /// `name` alone, if it applies.
    static attribute flag(std::string_view name, bool applies = true);

private:
    explicit attribute(std::string_view flag_name) : name{flag_name}, has_value{false} {}
};

using attributes = std::vector<attribute>;

/// <tag name="value">inside</tag>
markup element(std::string_view tag, attributes const& with, markup const& inside = {});
markup element(std::string_view tag, markup const& inside);

/// <tag class="...">inside</tag>
markup styled(std::string_view tag, std::string_view css_class, markup const& inside = {});

/// <input name="value">: HTML's elements that have no end.
markup lone(std::string_view tag, attributes const& with);

/// A path of this console with a query, percent-encoded: link("/saga", {{"key", key}}).
std::string link(std::string_view path, std::vector<std::pair<std::string, std::string>> const& query);

/// Text in which `words` between backticks are <code>, as the sentences of `skald` have them.
markup sentence(std::string_view text);

}  // namespace skald::console
