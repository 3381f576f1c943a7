#include "form.hpp"

#include "http/chars.hpp"

#include <algorithm>

namespace skald::console {
namespace {

// Unlike http::percent_decode, with the line feeds that separate the parts of a target (acts.hpp).
std::optional<std::string> decode(std::string_view encoded)
{
    std::string text;
    text.reserve(encoded.size());
    for (std::size_t i = 0; i < encoded.size(); ++i) {
        if (encoded[i] != '%') {
            text += encoded[i] == '+' ? ' ' : encoded[i];
            continue;
        }
        if (encoded.size() - i < 3) return std::nullopt;
        int const high = http::hex_value(encoded[i + 1]), low = http::hex_value(encoded[i + 2]);
        if (high < 0 || low < 0) return std::nullopt;
        text += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return text;
}

}  // namespace

std::optional<fields> parse_form(std::string_view encoded)
{
    fields all;
    while (!encoded.empty()) {
        auto const pair = encoded.substr(0, encoded.find('&'));
        encoded.remove_prefix(std::min(pair.size() + 1, encoded.size()));
        if (pair.empty()) continue;
        auto const equals = pair.find('=');
        auto name = decode(pair.substr(0, equals));
        auto value = decode(equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1));
        if (!name || !value) return std::nullopt;
        all.emplace(*std::move(name), *std::move(value));
    }
    return all;
}

}  // namespace skald::console
