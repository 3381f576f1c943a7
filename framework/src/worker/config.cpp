#include <skald/config.hpp>

#include "core/signature.hpp"
#include "worker/settings.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

namespace skald {
namespace {

// Never shows the value, which may itself be the key.
void check_is_file_name(std::string_view setting, std::string const& value)
{
    if (value.find("-----BEGIN") == std::string::npos && value.find('\n') == std::string::npos) return;
    throw configuration_error{fmt::format("{0} holds PEM text, and should name the file that does ({0}_FILE names a "
                                          "file that holds that name)",
                                          setting)};
}

void check_tls(config const& c)
{
    check_is_file_name("SKALD_HTTP_TLS_CERTIFICATE", c.http_tls_certificate);
    check_is_file_name("SKALD_HTTP_TLS_KEY", c.http_tls_key);
    if (c.http_listen.empty() || c.http_tls_certificate.empty() == c.http_tls_key.empty()) return;
    auto const* const missing = c.http_tls_key.empty() ? "SKALD_HTTP_TLS_KEY" : "SKALD_HTTP_TLS_CERTIFICATE";
    throw configuration_error{fmt::format("{} is missing: TLS needs a certificate and its key", missing)};
}

// Port 0 means a different port each time.
void check_addresses(config const& c)
{
    if (c.http_listen.empty() || c.http_listen != c.health_listen || c.http_listen.ends_with(":0")) return;
    throw configuration_error{
        fmt::format("SKALD_HTTP_LISTEN (--listen) and SKALD_HEALTH_LISTEN (--health-listen) are the same address, {}: "
                    "give each a port of its own, or set SKALD_HEALTH_LISTEN=off",
                    c.http_listen)};
}

void check_signing(config const& c)
{
    if (core::signing_key::parse(c.signing_keys))
        throw configuration_error{
            "SKALD_SIGNING_KEYS holds a key, and should name the file that does (SKALD_SIGNING_KEYS_FILE names a file "
            "that holds that name)"};
    check_is_file_name("SKALD_SIGNING_KEYS", c.signing_keys);
}

}  // namespace

config config::from_environment()
{
    return worker_detail::from(worker_detail::read_environment(), {});
}

config config::from_environment(int argc, char const* const* argv)
{
    return worker_detail::from(worker_detail::read_environment(), {argv + 1, argv + argc});
}

std::string config::help(bool all)
{
    using worker_detail::setting_group;
    std::string text;
    config const defaults;
    auto const add = [&](setting_group group) {
        for (auto const& s : worker_detail::settings()) {
            if (s.group != group) continue;
            auto const value = s.show(defaults);
            text += fmt::format("  {:<35} {:<31} {}{}\n", s.variable, s.flag, s.meaning,
                                value.empty() ? "" : fmt::format(" [{}]", value));
        }
    };
    add(setting_group::usual);
    text += "\n  DATABASE_URL_FILE and AMQP_URL_FILE name files that hold the URLs, and so does every other variable "
            "with _FILE.\n";
    if (!all) return text + "  --help-all lists the other settings.\n";
    text += "\n";
    add(setting_group::other);
    text += "\nLimits of HTTP requests:\n\n";
    add(setting_group::http_limit);
    return text;
}

void config::check() const
{
    worker_detail::check(*this);
    check_tls(*this);
    check_addresses(*this);
    check_signing(*this);
    if (http.bodies_bytes_max < http.body_bytes_max)
        throw configuration_error{fmt::format(
            "SKALD_HTTP_BODIES_BYTES_MAX ({}) must be at least SKALD_HTTP_BODY_BYTES_MAX ({}): a body as large "
            "as one may be would never be accepted",
            http.bodies_bytes_max, http.body_bytes_max)};
    if (prefetch < lanes)
        throw configuration_error{fmt::format("SKALD_PREFETCH ({}) must be at least SKALD_LANES ({}): a lane without a "
                                              "delivery is idle",
                                              prefetch, lanes)};
}

}  // namespace skald
