#include "worker/metrics_page.hpp"

#include "metrics/catalogue.hpp"
#include "metrics/write.hpp"

#include <skald/detail/external_work.hpp>

namespace skald::worker_detail {
namespace {

void write(metrics::exposition& to, served_parts const& parts)
{
    to.add(metrics::of::consumer_connected, {}, parts.deliveries.available() ? 1 : 0);
    if (parts.started != nullptr)
        for (auto const& [name, status] : parts.started->dependencies()) metrics::write(to, name, status);
    if (parts.server == nullptr) return;
    auto const load = parts.server->load();
    to.add(metrics::of::connections, {}, static_cast<double>(load.connections));
    to.add(metrics::of::waits, {}, static_cast<double>(load.waits));
    to.add(metrics::of::lanes_busy, {}, static_cast<double>(load.lanes_busy));
    to.add(metrics::of::queued, {}, static_cast<double>(load.queued));
}

void write(metrics::exposition& to, entry::implementation const& entry)
{
    if (entry.front() == nullptr) return;
    metrics::write(to, entry.front_counts());
    auto const now = entry.front()->now();
    to.add(metrics::of::front_connected, {}, now.is_connected ? 1 : 0);
    to.add(metrics::of::front_avoided, {}, now.is_avoided ? 1 : 0);
    to.add(metrics::of::front_dropped, {}, static_cast<double>(now.dropped));
    to.add(metrics::of::front_malformed, {}, static_cast<double>(now.malformed));
}

}  // namespace

std::string metrics_page::text(served_parts const* parts) const
{
    metrics::exposition page{service_, metrics::of::all};
    auto const up = std::chrono::steady_clock::now() - since_;
    page.add(metrics::of::uptime, {}, std::chrono::duration<double>(up).count());
    steps_.for_each_newest([&](auto const& definition, auto const& step, auto const& hosted) {
        metrics::write(page, definition, step, *hosted.counts);
        for (bool const is_forward : {true, false})
            if (auto const* const work = hosted.step->external(is_forward); work != nullptr && work->is_call())
                metrics::write_calls(page, definition, step, is_forward, *hosted.counts);
    });
    for (auto const& [step, limit] : steps_.limits()) metrics::write(page, step, *limit);
    metrics::write(page, counts_.lanes->metrics, entry_.doubts());
    metrics::write_dispatch(page, *counts_.dispatch);
    if (has_relay_) metrics::write_relay(page, *counts_.relay);
    for (auto const& route : entry_.routes().all_counts()) metrics::write(page, *route);
    metrics::write(page, *counts_.bodies);
    write(page, entry_);
    page.add(metrics::of::spans_exported, {}, traces_ == nullptr ? 0 : static_cast<double>(traces_->exported()));
    page.add(metrics::of::spans_dropped, {}, traces_ == nullptr ? 0 : static_cast<double>(traces_->dropped()));
    metrics::write(page, counts_.figures.now());
    if (parts != nullptr) write(page, *parts);
    return page.text();
}

}  // namespace skald::worker_detail
