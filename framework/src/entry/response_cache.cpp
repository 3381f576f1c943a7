#include "entry/response_cache.hpp"

#include "core/assert.hpp"

#include <utility>

namespace skald::entry_detail {
namespace {

// The lists' and the allocator's overhead for each entry.
constexpr std::size_t overhead = 512;

constexpr std::size_t large_part = 16;

std::size_t size_of(ports::kept_response const& what)
{
    std::size_t bytes = overhead + 2 * (what.id.scope.size() + what.id.key.size()) + what.fingerprint.size() +
                        what.epoch.size() + what.answer.content_type.size() + what.answer.body.size();
    for (auto const& [name, value] : what.answer.headers) bytes += name.size() + value.size() + overhead / 8;
    return bytes;
}

}  // namespace

ports::found response_cache::find(ports::question const& q)
{
    auto const kept = find(q.id, clock::now());
    return kept ? ports::compared(q, kept) : ports::found{};
}

void response_cache::keep(ports::kept_response what, clock::time_point now)
{
    auto const bytes = size_of(what);
    if (bytes > limits_.bytes_max / large_part) return;
    auto kept = std::make_shared<ports::kept_response const>(std::move(what));

    std::lock_guard const lock{mutex_};
    while (!entries_.empty() && entries_.front().until <= now) drop(entries_.begin());
    if (auto const before = by_id_.find(kept->id); before != by_id_.end()) {
        if (before->second->what->epoch == kept->epoch) return;
        drop(before->second);
    }
    while (!entries_.empty() && bytes_ + bytes > limits_.bytes_max) drop(entries_.begin());
    auto const at = entries_.insert(entries_.end(), {kept, bytes, now + limits_.longest});
    by_id_.emplace(kept->id, at);
    bytes_ += bytes;
    SKALD_ASSERT(bytes_ <= limits_.bytes_max && entries_.size() == by_id_.size());
}

std::shared_ptr<ports::kept_response const> response_cache::find(core::saga_id const& id, clock::time_point now) const
{
    std::lock_guard const lock{mutex_};
    auto const found = by_id_.find(id);
    if (found == by_id_.end() || found->second->until <= now) return {};
    return found->second->what;
}

void response_cache::drop(std::list<entry>::const_iterator which)
{
    SKALD_ASSERT(which->bytes <= bytes_);
    bytes_ -= which->bytes;
    by_id_.erase(which->what->id);
    entries_.erase(which);
}

}  // namespace skald::entry_detail
