#include "audit/period.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace skald::audit {

core::instant read_time(std::string const& option, std::string_view text)
{
    std::string whole{text};
    if (whole.size() == std::string_view{"2026-11-01"}.size()) whole += "T00:00:00Z";
    if (whole.size() == std::string_view{"2026-11-01T00:00:00Z"}.size() && whole.ends_with('Z'))
        whole.replace(whole.size() - 1, 1, ".000000Z");
    if (auto const at = core::parse_instant(whole)) return *at;
    throw configuration_error{fmt::format("{} {}: a time is 2026-11-01 or 2026-11-01T12:00:00Z, in UTC", option, text)};
}

period make_period(std::optional<core::instant> since, std::optional<core::instant> until, std::chrono::seconds grace,
                   core::instant now)
{
    auto const latest = std::chrono::floor<std::chrono::seconds>(now - 2 * grace);
    period made{{}, std::min<core::instant>(until.value_or(latest), latest), grace};
    made.since = since.value_or(made.until - std::chrono::days{2});
    if (made.since >= made.until) {
        throw configuration_error{fmt::format(
            "the period from {} until {} is empty: it ends twice --grace ago at the latest, since what is younger may "
            "still be under way",
            core::write_instant(made.since), core::write_instant(made.until))};
    }
    return made;
}

}  // namespace skald::audit
