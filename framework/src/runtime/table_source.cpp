#include "runtime/table_source.hpp"

#include "core/assert.hpp"
#include "core/failpoint.hpp"

#include <stdexcept>
#include <utility>

namespace skald::runtime {

using namespace std::chrono_literals;

std::vector<ports::outbox::row> table_source::poll(std::size_t max)
{
    if (free_.empty() || !is_time()) return {};
    auto& from = free_.front().get();
    auto rows = from.take(max);
    SKALD_ASSERT(rows.size() <= max);
    was_full_ = rows.size() == max;
    if (rows.empty()) {
        next_poll_ = clock::now() + every_;
        return {};
    }
    free_.erase(free_.begin());
    auto& taken = under_way_.emplace_back(batch{&from, {}, {}});
    for (auto const& row : rows) taken.unanswered.insert(row.id);
    SKALD_FAILPOINT("relay.taken");
    return rows;
}

bool table_source::is_time()
{
    if (!under_way_.empty()) return was_full_;
    bool const is_woken = take_wake();
    return is_woken || clock::now() >= next_poll_;
}

std::size_t table_source::resolve(answers now)
{
    for (auto const row : now.confirmed) batch_of(row).answered.confirmed.push_back(row);
    for (auto const row : now.unresolved) batch_of(row).answered.unresolved.push_back(row);
    for (auto& one : now.deferred) batch_of(one.id).answered.deferred.push_back(std::move(one));
    std::size_t gone = 0;
    for (; !under_way_.empty() && under_way_.front().unanswered.empty(); under_way_.pop_front()) {
        auto const& [from, unanswered, answered] = under_way_.front();
        bool const all_confirmed = answered.deferred.empty() && answered.unresolved.empty();
        SKALD_FAILPOINT("relay.confirmed");
        from->resolve(answered.confirmed, answered.deferred);
        SKALD_FAILPOINT("relay.deleted");
        SKALD_FAILPOINT_IF(!all_confirmed, "relay.deferred");
        // There may be more; but what could not be sent is not retried at once.
        next_poll_ = clock::now() + (all_confirmed ? 0ms : every_);
        was_full_ = was_full_ && all_confirmed;
        gone += answered.confirmed.size();
        free_.insert(free_.begin(), *from);
    }
    return gone;
}

table_source::batch& table_source::batch_of(std::int64_t answered)
{
    for (auto& one : under_way_)
        if (one.unanswered.erase(answered) > 0) return one;
    throw std::logic_error{"an answer for a row that was not given out"};
}

std::chrono::milliseconds table_source::max_wait() const
{
    if (!under_way_.empty()) return 1h;
    return std::chrono::ceil<std::chrono::milliseconds>(next_poll_ - clock::now());
}

void table_source::release() noexcept
{
    for (auto const& one : under_way_) {
        one.from->release();
        free_.emplace_back(*one.from);
    }
    under_way_.clear();
    was_full_ = false;
}

}  // namespace skald::runtime
