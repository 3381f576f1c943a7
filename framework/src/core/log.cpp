#include "core/log.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <stdexcept>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace skald::core {
namespace {

constexpr std::size_t value_bytes_max = 1000;

constexpr std::array<std::string_view, 4> severity_names{"debug", "info", "warning", "error"};

constexpr std::string_view name_of(severity level)
{
    return severity_names[static_cast<std::size_t>(level)];
}

bool is_plain(unsigned char c)
{
    return c > 0x20 && c < 0x7f && c != '"' && c != '\\' && c != '=';
}

void append_escaped(std::string& out, unsigned char c)
{
    if (c == '"' || c == '\\') (out += '\\') += static_cast<char>(c);
    else if (c == '\n') out += "\\n";
    else if (c < 0x20 || c >= 0x7f) out += fmt::format("\\x{:02x}", c);
    else out += static_cast<char>(c);
}

std::string utc_now()
{
    auto const now = std::chrono::system_clock::now();
    auto const ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
    std::time_t const seconds = std::chrono::system_clock::to_time_t(now);
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03d}Z", utc, ms);
}

}  // namespace

severity parse_severity(std::string_view name)
{
    auto const it = std::ranges::find(severity_names, name);
    if (it == severity_names.end()) throw std::invalid_argument{"debug, info, warning or error"};
    return static_cast<severity>(it - severity_names.begin());
}

std::string log_value(std::string_view raw)
{
    bool plain = !raw.empty() && raw.size() <= value_bytes_max;
    for (char const c : raw) plain = plain && is_plain(static_cast<unsigned char>(c));
    if (plain) return std::string{raw};

    std::string out{"\""};
    for (char const c : raw.substr(0, value_bytes_max)) append_escaped(out, static_cast<unsigned char>(c));
    if (raw.size() > value_bytes_max) out += "...";
    return out += '"';
}

std::string log_line(std::string_view time, severity level, std::string_view service, std::string_view event,
                     std::span<log_field const> fields)
{
    std::string line = fmt::format("{} {} {} {}", time, name_of(level), log_value(service), event);
    for (auto const& field : fields) {
        line.append(" ").append(field.name).append("=");
        if (auto const* number = std::get_if<std::int64_t>(&field.value)) line += fmt::format("{}", *number);
        else line += log_value(std::get<std::string_view>(field.value));
    }
    return line += '\n';
}

void stderr_logger::write(severity level, std::string_view event, std::span<log_field const> fields) noexcept
try {
    auto const line = format_ == log_format::json ? log_json(level, service_, event, fields)
                                                  : skald::log_line(level, service_, event, fields);
    // One write per line, so that lines of several threads and processes do not mix. A log that can't be written
    // has nowhere to be reported.
    [[maybe_unused]] auto const written = ::write(STDERR_FILENO, line.data(), line.size());
}
catch (...) {
    return;
}

}  // namespace skald::core

std::string skald::log_line(severity level, std::string_view service, std::string_view event,
                            std::span<log_field const> fields)
{
    return core::log_line(core::utc_now(), level, service, event, fields);
}

std::string skald::log_json(severity level, std::string_view service, std::string_view event,
                            std::span<log_field const> fields)
{
    nlohmann::ordered_json line{
        {"time", core::utc_now()}, {"level", core::name_of(level)}, {"service", service}, {"event", event}};
    for (auto const& field : fields) {
        auto& value = line[std::string{field.name}];
        if (auto const* number = std::get_if<std::int64_t>(&field.value)) value = *number;
        else value = std::get<std::string_view>(field.value).substr(0, core::value_bytes_max);
    }
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}
