// Log lines: one event with fields. Their names are listed in docs/log-events.md.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace skald {

/// Of a line, the least severe first: SKALD_LOG_LEVEL.
enum class severity { debug, info, warning, error };

/// The value of a field: text or a whole number. Lifetime: the call of logger::write().
struct log_field
{
    std::string_view name;                               // "key"
    std::variant<std::string_view, std::int64_t> value;  // not escaped: it may come from a client or a server

    /// Created by Skald; a test of a logger may create one, too.
    log_field(std::string_view n, std::string_view text) : name{n}, value{text} {}
    log_field(std::string_view n, std::string const& text) : name{n}, value{std::string_view{text}} {}  // likewise
    log_field(std::string_view n, char const* text) : name{n}, value{std::string_view{text}} {}         // likewise
    log_field(std::string_view n, std::int64_t number) : name{n}, value{number} {}                      // likewise
    log_field(std::string_view n, int number) : name{n}, value{std::int64_t{number}} {}                 // likewise

    /// Likewise; above 2^63 it is written as a negative number.
    log_field(std::string_view n, std::uint64_t number) : name{n}, value{static_cast<std::int64_t>(number)} {}
};

/// Where log lines go. A worker writes to standard error; derive from this to send them to your own logging library.
/// Threads: write() may be called from any thread, several at a time. It must not throw or block for long: a log line
///          must not change what is committed.
class logger
{
public:
    virtual ~logger() = default;

    /// One line: `event` is a constant such as "step.rejected".
    virtual void write(severity level, std::string_view event, std::span<log_field const> fields) noexcept = 0;

    using field_list = std::initializer_list<log_field>;  // as Skald's own code writes them

    /// What Skald's own code calls: `log.info("step.rejected", {{"key", key}})`.
    void write(severity level, std::string_view event, field_list f = {}) noexcept
    {
        write(level, event, std::span{f.begin(), f.size()});
    }
    void debug(std::string_view event, field_list f = {}) noexcept { write(severity::debug, event, f); }  // likewise
    void info(std::string_view event, field_list f = {}) noexcept { write(severity::info, event, f); }    // likewise
    /// Likewise.
    void warning(std::string_view event, field_list f = {}) noexcept { write(severity::warning, event, f); }
    void error(std::string_view event, field_list f = {}) noexcept { write(severity::error, event, f); }  // likewise
};

/// The line that a worker writes to standard error, with its end of line, for a logger that writes text itself:
/// `2026-01-31T12:00:00.000Z info payments step.rejected key=...`. A value from an untrusted source can't forge a
/// second line: what is not plain is quoted and escaped, and truncated to 1,000 bytes.
std::string log_line(severity level, std::string_view service, std::string_view event,
                     std::span<log_field const> fields);

/// The same as a JSON object, for SKALD_LOG_FORMAT=json: `time`, `level`, `service` and `event`, then the fields,
/// numbers as numbers. Text is truncated to 1,000 bytes, and made UTF-8 where it is not.
std::string log_json(severity level, std::string_view service, std::string_view event,
                     std::span<log_field const> fields);

}  // namespace skald
