#include "markup.hpp"

#include "core/text.hpp"

namespace skald::console {
namespace {

std::string escaped(std::string_view text)
{
    std::string code;
    code.reserve(text.size());
    for (char const c : text) {
        switch (c) {
        case '&': code += "&amp;"; break;
        case '<': code += "&lt;"; break;
        case '>': code += "&gt;"; break;
        case '"': code += "&quot;"; break;
        case '\'': code += "&#39;"; break;
        default: code += c;
        }
    }
    return code;
}

std::string start_of(std::string_view tag, attributes const& with)
{
    std::string code = "<" + std::string{tag};
    for (auto const& one : with) {
        if (one.name.empty()) continue;
        code += ' ' + one.name;
        if (one.has_value) code += "=\"" + escaped(core::visible_text(one.value, core::line_feeds::kept)) + '"';
    }
    return code + '>';
}

std::string percent_encoded(std::string_view text)
{
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string code;
    for (char const c : text) {
        auto const byte = static_cast<unsigned char>(c);
        bool const plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           std::string_view{"-._~"}.find(c) != std::string_view::npos;
        if (plain) code += c;
        else code.append(1, '%').append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
    }
    return code;
}

}  // namespace

void markup::append_text(std::string_view text)
{
    code_ += escaped(core::visible_text(text, core::line_feeds::kept));
}

markup raw(std::string_view code)
{
    markup made;
    made.code_ = code;
    return made;
}

attribute attribute::flag(std::string_view name, bool applies)
{
    return applies ? attribute{name} : attribute{std::string_view{}};
}

markup element(std::string_view tag, attributes const& with, markup const& inside)
{
    return raw(start_of(tag, with)) + inside + raw("</" + std::string{tag} + ">");
}

markup element(std::string_view tag, markup const& inside)
{
    return element(tag, attributes{}, inside);
}

markup styled(std::string_view tag, std::string_view css_class, markup const& inside)
{
    return element(tag, attributes{{"class", css_class}}, inside);
}

markup lone(std::string_view tag, attributes const& with)
{
    return raw(start_of(tag, with));
}

std::string link(std::string_view path, std::vector<std::pair<std::string, std::string>> const& query)
{
    std::string url{path};
    char separator = '?';
    for (auto const& [name, value] : query) {
        if (value.empty()) continue;
        url += std::exchange(separator, '&') + percent_encoded(name) + '=' + percent_encoded(value);
    }
    return url;
}

markup sentence(std::string_view text)
{
    markup made;
    while (!text.empty()) {
        auto const from = text.find('`');
        auto const to = from == std::string_view::npos ? from : text.find('`', from + 1);
        if (to == std::string_view::npos) return made += text;
        made += text.substr(0, from);
        made += element("code", text.substr(from + 1, to - from - 1));
        text.remove_prefix(to + 1);
    }
    return made;
}

}  // namespace skald::console
