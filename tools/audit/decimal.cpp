#include "audit/decimal.hpp"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

namespace skald::audit {
namespace {

/// 0.DIGITS x 10^exponent, without zeros at either end; zero has no digits.
struct decimal
{
    bool is_negative{};
    std::string digits;
    std::int64_t exponent{};
    bool operator==(decimal const&) const = default;
};

std::string_view take_digits(std::string_view& text)
{
    auto const digits = text.substr(0, text.find_first_not_of("0123456789"));
    text.remove_prefix(digits.size());
    return digits;
}

// Bounded, so that no sum of two overflows; a number beyond that is no amount.
std::optional<std::int64_t> read_exponent(std::string_view text)
{
    if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
    std::int32_t value{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<decimal> read_decimal(std::string_view text)
{
    decimal value;
    value.is_negative = text.starts_with('-');
    if (value.is_negative || text.starts_with('+')) text.remove_prefix(1);
    auto const whole = take_digits(text);
    value.digits = whole;
    value.exponent = static_cast<std::int64_t>(whole.size());
    if (text.starts_with('.')) {
        text.remove_prefix(1);
        value.digits += take_digits(text);
    }
    if (value.digits.empty()) return std::nullopt;
    if (text.starts_with('e') || text.starts_with('E')) {
        auto const exponent = read_exponent(text.substr(1));
        if (!exponent) return std::nullopt;
        value.exponent += *exponent;
        text = {};
    }
    if (!text.empty()) return std::nullopt;

    auto const first = value.digits.find_first_not_of('0');
    if (first == std::string::npos) return decimal{};
    value.digits.erase(value.digits.find_last_not_of('0') + 1);
    value.digits.erase(0, first);
    value.exponent -= static_cast<std::int64_t>(first);
    return value;
}

}  // namespace

bool is_same_decimal(std::string_view one, std::string_view other)
{
    auto const a = read_decimal(one), b = read_decimal(other);
    return a && b && *a == *b;
}

}  // namespace skald::audit
