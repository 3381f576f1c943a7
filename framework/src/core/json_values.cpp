#include "core/json_values.hpp"

#include "core/text.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace skald::core {
namespace {

using nlohmann::json;

bool is_same_double(double one, double other)
{
    if (std::isnan(one) || std::isnan(other)) return std::isnan(one) && std::isnan(other);
    return std::bit_cast<std::uint64_t>(one) == std::bit_cast<std::uint64_t>(other);
}

bool is_same_number(json const& one, json const& other)
{
    if (one.is_number_float() != other.is_number_float()) return false;
    if (one.is_number_float()) return is_same_double(one.get<double>(), other.get<double>());
    return exactly(one) == exactly(other);
}

bool lead_to(json const& value, json const& found, json::json_pointer& path)
{
    if (&value == &found) return true;
    if (!value.is_structured()) return false;
    for (auto const& [name, inner] : value.items()) {
        path.push_back(name);  // of an element, its index
        if (lead_to(inner, found, path)) return true;
        path.pop_back();
    }
    return false;
}

}  // namespace

long double exactly(json const& number)
{
    static_assert(std::numeric_limits<long double>::digits >= 64);
    if (number.is_number_unsigned()) return static_cast<long double>(number.get<std::uint64_t>());
    if (number.is_number_integer()) return static_cast<long double>(number.get<std::int64_t>());
    return static_cast<long double>(number.get<double>());
}

bool is_same(json const& one, json const& other)
{
    if (one.is_number() && other.is_number()) return is_same_number(one, other);
    if (one.type() != other.type()) return false;
    if (one.is_object()) {
        auto const& a = one.get_ref<json::object_t const&>();
        auto const& b = other.get_ref<json::object_t const&>();
        return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto const& x, auto const& y) {
            return x.first == y.first && is_same(x.second, y.second);
        });
    }
    if (one.is_array()) {
        auto const& a = one.get_ref<json::array_t const&>();
        auto const& b = other.get_ref<json::array_t const&>();
        return std::equal(a.begin(), a.end(), b.begin(), b.end(), is_same);
    }
    return one == other;
}

bool may_be_part_of(json const& known, json const& whole)
{
    if (known.is_number() && whole.is_number()) return exactly(known) == exactly(whole);
    if (known.type() != whole.type()) return false;
    if (known.is_object()) {
        auto const& members = known.get_ref<json::object_t const&>();
        return std::all_of(members.begin(), members.end(), [&](auto const& member) {
            auto const there = whole.find(member.first);
            return there == whole.end() || may_be_part_of(member.second, *there);
        });
    }
    if (known.is_array()) {
        auto const& a = known.get_ref<json::array_t const&>();
        auto const& b = whole.get_ref<json::array_t const&>();
        return std::equal(a.begin(), a.end(), b.begin(), b.end(), may_be_part_of);
    }
    return known == whole;
}

json const* find_not_finite(json const& value)
{
    if (value.is_number_float()) return std::isfinite(value.get<double>()) ? nullptr : &value;
    if (!value.is_structured()) return nullptr;
    for (auto const& inner : value)
        if (auto const* const found = find_not_finite(inner)) return found;
    return nullptr;
}

void refuse_not_finite(json const& root, json const& found)
{
    json::json_pointer path;
    lead_to(root, found, path);
    auto const where = path.empty() ? "it" : storable_text(path.to_string(), 200);
    auto const what = std::isnan(found.get<double>()) ? "NaN" : "infinite";
    throw data_error{where + " is " + what + ", which JSON can't represent"};
}

}  // namespace skald::core
