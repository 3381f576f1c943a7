#include "worker/outage_log.hpp"

#include <algorithm>

namespace skald::worker_detail {
namespace {

constexpr std::chrono::minutes told_again_after{1};

std::string_view reason_in(std::span<core::log_field const> fields)
{
    auto const found = std::ranges::find(fields, "reason", &core::log_field::name);
    auto const* const text = found == fields.end() ? nullptr : std::get_if<std::string_view>(&found->value);
    return text == nullptr ? "" : *text;
}

}  // namespace

void outage_log::write(core::severity level, std::string_view event, std::span<core::log_field const> fields) noexcept
try {
    if (event == "broker.connected") {
        std::lock_guard const lock{mutex_};
        told_.clear();
    }
    if (event == "broker.lost" && !is_news(fields)) level = core::severity::debug;
    to_.write(level, event, fields);
}
catch (...) {  // no memory for the reason
    to_.write(level, event, fields);
}

bool outage_log::is_news(std::span<core::log_field const> fields)
{
    auto const reason = reason_in(fields);
    auto const now = clock::now();
    std::lock_guard const lock{mutex_};
    if (told_.empty() || now - told_from_ >= told_again_after) {
        told_.clear();
        told_from_ = now;
    }
    return told_.emplace(reason).second;
}

}  // namespace skald::worker_detail
