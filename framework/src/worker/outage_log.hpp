// One line for an outage of the broker, however many connections of a process notice it, and try again.
#pragma once

#include "core/log.hpp"

#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <string>

namespace skald::worker_detail {

/// Passes lines on. `broker.lost` is a warning once for each reason, and again each minute; what other roles and other
/// attempts say of the same outage is for `debug`. It has ended for all when one of them is connected.
/// Threads: any. Lifetime: `to` outlives it.
class outage_log final : public core::logger
{
public:
    explicit outage_log(core::logger& to) : to_{to} {}

    using logger::write;
    void write(core::severity level, std::string_view event, std::span<core::log_field const> fields) noexcept override;

private:
    using clock = std::chrono::steady_clock;

    bool is_news(std::span<core::log_field const> fields);

    core::logger& to_;
    std::mutex mutex_;
    std::set<std::string, std::less<>> told_;  // the reasons, since `told_from_`
    clock::time_point told_from_{};
};

}  // namespace skald::worker_detail
