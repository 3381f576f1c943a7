// Log lines: one event, one line of `name=value` fields, on standard error. Their names are API (docs/operations.md).
//
// A logger is passed to each object at construction; there is no global one.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace skald::core {

enum class severity { debug, info, warning, error };

/// From "debug", "info", "warning" or "error". Throws std::invalid_argument for anything else.
severity parse_severity(std::string_view name);

/// The value of a field: text or a whole number.
struct log_field
{
    std::string_view name;
    std::variant<std::string_view, std::int64_t> value;

    log_field(std::string_view n, std::string_view text) : name{n}, value{text} {}
    log_field(std::string_view n, std::string const& text) : name{n}, value{std::string_view{text}} {}
    log_field(std::string_view n, char const* text) : name{n}, value{std::string_view{text}} {}
    log_field(std::string_view n, std::int64_t number) : name{n}, value{number} {}
    log_field(std::string_view n, int number) : name{n}, value{std::int64_t{number}} {}
    log_field(std::string_view n, std::uint64_t number) : name{n}, value{static_cast<std::int64_t>(number)} {}
};

/// Threads: write() may be called from any thread. It never throws: a log line must not change what is committed.
class logger
{
public:
    virtual ~logger() = default;
    virtual void write(severity level, std::string_view event,
                       std::initializer_list<log_field> fields = {}) noexcept = 0;

    void debug(std::string_view event, std::initializer_list<log_field> f = {}) noexcept
    {
        write(severity::debug, event, f);
    }
    void info(std::string_view event, std::initializer_list<log_field> f = {}) noexcept
    {
        write(severity::info, event, f);
    }
    void warning(std::string_view event, std::initializer_list<log_field> f = {}) noexcept
    {
        write(severity::warning, event, f);
    }
    void error(std::string_view event, std::initializer_list<log_field> f = {}) noexcept
    {
        write(severity::error, event, f);
    }
};

/// Any bytes as one field value: quoted if needed, with control and non-UTF-8 bytes escaped, so that a value from an
/// untrusted source can't forge a second line; truncated to 1,000 bytes.
std::string log_value(std::string_view raw);

/// `2026-01-31T12:00:00.000Z info payments saga.completed key=... `
std::string log_line(std::string_view time, severity level, std::string_view service, std::string_view event,
                     std::initializer_list<log_field> fields);

/// Writes lines of at least `least` to standard error, each with one write(2).
class stderr_logger final : public logger
{
public:
    stderr_logger(std::string service, severity least);
    void write(severity level, std::string_view event, std::initializer_list<log_field> fields) noexcept override;

private:
    std::string service_;
    severity least_;
};

/// Writes nothing.
class silent_logger final : public logger
{
public:
    void write(severity, std::string_view, std::initializer_list<log_field>) noexcept override {}
};

}  // namespace skald::core
