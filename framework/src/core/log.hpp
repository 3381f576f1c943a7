// Log lines: one event, one line of `name=value` fields, on standard error. Their names are API (docs/log-events.md).
//
// A logger is passed to each object at construction; there is no global one.
#pragma once

#include <skald/log.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace skald::core {

using skald::log_field;
using skald::logger;
using skald::severity;

/// From "debug", "info", "warning" or "error". Throws std::invalid_argument for anything else.
severity parse_severity(std::string_view name);

/// Any bytes as one field value: quoted if needed, with control and non-UTF-8 bytes escaped, so that a value from an
/// untrusted source can't forge a second line; truncated to 1,000 bytes.
std::string log_value(std::string_view raw);

/// skald::log_line() at this time of the day.
std::string log_line(std::string_view time, severity level, std::string_view service, std::string_view event,
                     std::span<log_field const> fields);

/// How a line is written: as skald::log_line() or as skald::log_json() does.
enum class log_format { text, json };

/// Of SKALD_LOG_FORMAT, which was checked.
inline log_format log_format_of(std::string_view name)
{
    return name == "json" ? log_format::json : log_format::text;
}

/// Writes each line to standard error with one write(2).
class stderr_logger final : public logger
{
public:
    explicit stderr_logger(std::string service, log_format format = log_format::text)
        : service_{std::move(service)}, format_{format}
    {}
    using logger::write;
    void write(severity level, std::string_view event, std::span<log_field const> fields) noexcept override;

private:
    std::string service_;
    log_format format_;
};

/// Passes on what is at least `least`.
class filtering_logger final : public logger
{
public:
    filtering_logger(std::shared_ptr<logger> to, severity least) : to_{std::move(to)}, least_{least} {}
    using logger::write;
    void write(severity level, std::string_view event, std::span<log_field const> fields) noexcept override
    {
        if (level >= least_) to_->write(level, event, fields);
    }

private:
    std::shared_ptr<logger> to_;
    severity least_;
};

/// Writes nothing.
class silent_logger final : public logger
{
public:
    using logger::write;
    void write(severity, std::string_view, std::span<log_field const>) noexcept override {}
};

}  // namespace skald::core
