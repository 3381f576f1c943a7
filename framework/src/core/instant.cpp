#include "core/instant.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace skald::core {
namespace {

constexpr std::string_view form = "dddd-dd-ddTdd:dd:dd.ddddddZ";

bool has_the_form(std::string_view text)
{
    if (text.size() != form.size()) return false;
    for (std::size_t i = 0; i < form.size(); ++i)
        if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i]) return false;
    return true;
}

int number_at(std::string_view text, std::size_t at, std::size_t digits)
{
    int number = 0;
    for (char const c : text.substr(at, digits)) number = number * 10 + (c - '0');
    return number;
}

}  // namespace

std::optional<instant> parse_instant(std::string_view text)
{
    using namespace std::chrono;
    if (!has_the_form(text)) return std::nullopt;
    year_month_day const date{year{number_at(text, 0, 4)}, month{static_cast<unsigned>(number_at(text, 5, 2))},
                              day{static_cast<unsigned>(number_at(text, 8, 2))}};
    hours const h{number_at(text, 11, 2)};
    minutes const m{number_at(text, 14, 2)};
    seconds const s{number_at(text, 17, 2)};
    if (!date.ok() || date.year() == year{0} || h >= hours{24} || m >= minutes{60} || s >= seconds{60})
        return std::nullopt;
    return sys_days{date} + h + m + s + microseconds{number_at(text, 20, 6)};
}

std::string write_instant(instant at)
{
    using namespace std::chrono;
    constexpr instant first = sys_days{January / 1 / 1};
    constexpr instant last = sys_days{January / 1 / 10'000} - microseconds{1};
    at = std::clamp(at, first, last);
    auto const midnight = floor<days>(at);
    year_month_day const date{midnight};
    hh_mm_ss const time{at - midnight};
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), time.hours().count(),
                       time.minutes().count(), time.seconds().count(), time.subseconds().count());
}

}  // namespace skald::core
