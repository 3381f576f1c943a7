#include <skald/config.hpp>

#include "core/identity.hpp"
#include "worker/settings.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

namespace skald {

config config::from_environment(std::string service)
{
    return worker_detail::from(std::move(service), worker_detail::read_environment(), {});
}

config config::from_environment(std::string service, int argc, char const* const* argv)
{
    return worker_detail::from(std::move(service), worker_detail::read_environment(), {argv + 1, argv + argc});
}

std::string config::help()
{
    std::string text;
    config const defaults;
    for (auto const& s : worker_detail::settings()) {
        auto const value = s.show(defaults);
        text += fmt::format("  {:<35} {:<31} {}{}\n", s.variable, s.flag, s.meaning,
                            value.empty() ? "" : fmt::format(" [{}]", value));
    }
    return text + "\n  DATABASE_URL_FILE and AMQP_URL_FILE name files that hold the URLs.\n";
}

void config::check() const
{
    if (!core::is_name(service))
        throw configuration_error{"'" + service + "' is no name for a service: a lower-case letter, then lower-case "
                                                  "letters, digits and dashes, 48 at most"};
    worker_detail::check(*this);
    if (prefetch < lanes)
        throw configuration_error{fmt::format("SKALD_PREFETCH ({}) must be at least SKALD_LANES ({}): a lane without a "
                                              "delivery is idle", prefetch, lanes)};
}

}  // namespace skald
