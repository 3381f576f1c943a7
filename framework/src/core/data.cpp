// Checks of a saga's data, declared in skald/detail/data.hpp.
//
// nlohmann::json by itself takes 100,000 levels of nesting and then overflows the stack, keeps the last of two members
// with one name, turns 2^64 into a double and 4294967297 into 1 (reliability finding F14). Here they are errors.
#include <skald/detail/data.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace skald::detail {
namespace {

constexpr std::size_t depth_max = 64;

// Reads without building anything, so that no nesting can hurt; stops at the first thing that is not allowed.
class checker final : public nlohmann::json_sax<nlohmann::json>
{
public:
    std::string problem;

    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t) override { return true; }
    bool number_unsigned(number_unsigned_t) override { return true; }

    bool number_float(number_float_t number, string_t const& text) override
    {
        if (text.find_first_of(".eE") == string_t::npos) return refuse("a whole number beyond 64 bits: " + text);
        // Written out in digits, it means every one of them; from 2^53 on a double has not all.
        bool const written_out = text.find_first_of("eE") == string_t::npos;
        return !written_out || std::abs(number) < 9007199254740992.0 ||
               refuse("more digits than a double holds: " + text);
    }

    bool string(string_t& text) override
    {
        return text.find('\0') == string_t::npos || refuse("\\u0000, which PostgreSQL can't store");
    }

    bool binary(binary_t&) override { return false; }
    bool start_object(std::size_t) override { return open(); }

    bool key(string_t& name) override
    {
        if (!string(name)) return false;
        return names_.back().insert(name).second || refuse("the name \"" + name + "\" twice in one object");
    }

    bool end_object() override { return close(); }
    bool start_array(std::size_t) override { return open(); }
    bool end_array() override { return close(); }

    bool parse_error(std::size_t, std::string const&, nlohmann::json::exception const& error) override
    {
        return refuse(error.what());
    }

private:
    bool open()
    {
        if (names_.size() == depth_max) return refuse("nesting deeper than 64 levels");
        names_.emplace_back();
        return true;
    }

    bool close()
    {
        names_.pop_back();
        return true;
    }

    bool refuse(std::string what)
    {
        problem = std::move(what);
        return false;
    }

    std::vector<std::set<string_t>> names_;
};

// Every 64-bit whole number and every double, exactly. nlohmann compares numbers of two kinds by casting one to the
// other, which is the very loss that is looked for: to it, 2^64 - 1 equals -1, and 2^53 + 1 equals 2^53.
long double exactly(nlohmann::json const& number)
{
    static_assert(std::numeric_limits<long double>::digits >= 64);
    if (number.is_number_unsigned()) return static_cast<long double>(number.get<std::uint64_t>());
    if (number.is_number_integer()) return static_cast<long double>(number.get<std::int64_t>());
    return static_cast<long double>(number.get<double>());
}

bool has_changed(nlohmann::json const& received, nlohmann::json const& understood)
{
    if (!understood.is_number()) return false;
    return received.is_boolean() || (received.is_number() && exactly(received) != exactly(understood));
}

}  // namespace

nlohmann::json parse_checked(std::string_view body)
{
    // nlohmann takes it for the end of the body, and does not look at what follows.
    if (body.find('\0') != std::string_view::npos) throw data_error{"the body is not JSON that can be taken: a NUL"};
    checker check;
    if (!nlohmann::json::sax_parse(body, &check))
        throw data_error{"the body is not JSON that can be taken: " + check.problem};
    return nlohmann::json::parse(body);
}

void check_numbers_survived(nlohmann::json const& received, nlohmann::json const& understood)
{
    if (has_changed(received, understood))
        throw data_error{received.dump() + " does not fit the saga's data type: it became " + understood.dump()};
    if (received.is_object() && understood.is_object()) {
        for (auto const& [name, value] : understood.items())
            if (auto const it = received.find(name); it != received.end()) check_numbers_survived(*it, value);
    }
    else if (received.is_array() && understood.is_array() && received.size() == understood.size()) {
        for (std::size_t i = 0; i < received.size(); ++i) check_numbers_survived(received[i], understood[i]);
    }
}

}  // namespace skald::detail
