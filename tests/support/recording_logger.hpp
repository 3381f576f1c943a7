// A logger whose lines a test reads.
#pragma once

#include "core/log.hpp"

#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace skald::test {

/// Keeps the lines, for tests of what is logged and of what must not be.
class recording_logger final : public core::logger
{
public:
    void write(core::severity level, std::string_view event, std::span<core::log_field const> fields) noexcept override
    {
        auto const line = core::log_line("now", level, "test", event, fields);
        std::lock_guard lock{mutex_};
        lines_ += line + "\n";
    }
    std::string lines() const
    {
        std::lock_guard lock{mutex_};
        return lines_;
    }
    bool has(std::string_view text) const { return count(text) > 0; }
    std::size_t count(std::string_view text) const
    {
        auto const all = lines();
        std::size_t found = 0;
        for (auto at = all.find(text); at != std::string::npos; at = all.find(text, at + text.size())) ++found;
        return found;
    }

private:
    mutable std::mutex mutex_;
    std::string lines_;
};

}  // namespace skald::test
