#include "runtime/relay.hpp"

#include "core/failpoint.hpp"

#include <algorithm>
#include <utility>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

}  // namespace

relay::relay(relay_options options, std::vector<std::reference_wrapper<ports::outbox>> outboxes,
             ports::publisher& publisher, outbound& out, stop_flag const& stop, core::logger& log,
             std::mt19937_64 random)
    : options_{options}, free_{std::move(outboxes)},
      publisher_{publisher}, out_{out}, stop_{stop}, log_{log}, random_{random}
{}

void relay::run()
{
    auto next_look = clock::now();
    bool may_be_due = true;
    while (!stop_.stopped()) {
        write_down_answers();
        if (may_be_due || clock::now() >= next_look) {
            if (try_to_move() > 0) continue;  // there may be more
            next_look =
                clock::now() + (failures_in_a_row_ > 0 ? backoff_.wait(failures_in_a_row_, random_) : options_.poll);
        }
        if (stop_.stopped()) break;
        auto const left = std::chrono::ceil<std::chrono::milliseconds>(next_look - clock::now());
        bool const notified = out_.wait(std::max(0ms, left));
        may_be_due = notified && failures_in_a_row_ == 0;
    }
    write_down_answers();
    try_to_move();
}

std::size_t relay::try_to_move()
try {
    if (!publisher_.available()) {
        tell_trouble(publisher_.trouble());
        failures_in_a_row_ = std::max(failures_in_a_row_, 1);
        return 0;
    }
    return move_due();
}
catch (std::exception const& error) {
    release_all();
    ++failures_in_a_row_;
    tell_trouble(error.what());
    return 0;
}

std::size_t relay::move_due()
{
    std::size_t moved = 0;
    bool more = true;
    do {
        auto const fetched = more ? fetch() : 0;
        more = fetched > 0;
        // A full batch has others behind it: the next one is fetched while this one awaits its confirms.
        if (fetched == options_.batch_max && !free_.empty() && !stop_.stopped()) continue;
        auto const gone = finish_oldest();
        more = more && gone > 0 && !stop_.stopped() && publisher_.available();
        moved += gone;
        write_down_answers();
    } while (more || !under_way_.empty());
    return moved;
}

// What the sender got confirmed goes, many rows at a time. If that fails they come due, and are sent twice.
void relay::write_down_answers()
try {
    auto const answers = out_.take_answers();
    if (answers.empty()) return;
    std::vector<ports::outbox::put_off> failed;
    for (auto const& one : answers.failed) failed.push_back(put_off(one.row, 0, one.key, one.destination, one.reason));
    SKALD_FAILPOINT("handed.deleting");
    free_.front().get().settle(answers.confirmed, failed);
    SKALD_FAILPOINT("handed.deleted");
    SKALD_FAILPOINT_IF(!failed.empty(), "relay.put_off");
}
catch (std::exception const& error) {
    tell_trouble(error.what());
}

// The next batch is on its way, of so many rows.
std::size_t relay::fetch()
{
    auto& from = free_.front().get();
    batch next{&from, sent_, from.take(options_.batch_max), {}, 0, clock::now() + options_.deadline};
    if (next.rows.empty()) {
        if (under_way_.empty()) failures_in_a_row_ = 0;
        return 0;
    }
    free_.erase(free_.begin());
    auto& taken = under_way_.emplace_back(std::move(next));
    SKALD_FAILPOINT("relay.taken");
    std::vector<ports::outgoing> messages;
    messages.reserve(taken.rows.size());
    for (auto& row : taken.rows) {
        taken.receipts.push_back({row.id, ports::publish_status::unresolved, "the deadline passed"});
        messages.push_back({sent_++, row.message});
    }
    taken.unanswered = messages.size();
    SKALD_MUTANT("delete_before_confirm", from.settle_all());
    publisher_.send(messages, options_.deadline);
    return messages.size();
}

std::size_t relay::finish_oldest()
{
    if (under_way_.empty()) return 0;
    await(under_way_.front());
    SKALD_FAILPOINT("relay.confirmed");
    auto& answered = under_way_.front();
    bool const all_confirmed = std::ranges::all_of(
        answered.receipts, [](auto const& r) { return r.status == ports::publish_status::confirmed; });
    if (all_confirmed) answered.from->settle_all();
    else settle(answered);
    SKALD_FAILPOINT("relay.deleted");
    if (all_confirmed) {
        failures_in_a_row_ = 0;
        tell_trouble({});
    }
    auto const moved = all_confirmed ? answered.rows.size() : 0;
    free_.insert(free_.begin(), *answered.from);
    under_way_.pop_front();
    return moved;
}

// Never longer than its deadline: its rows are locked. The publisher ends sooner where it knows
// that no answer will come.
void relay::await(batch const& awaited)
{
    do {
        auto const left = std::chrono::ceil<std::chrono::milliseconds>(awaited.until + 500ms - clock::now());
        if (left <= 0ms) return;
        for (auto& receipt : publisher_.collect(awaited.unanswered > 0 ? left : 0ms)) note(std::move(receipt));
    } while (awaited.unanswered > 0);
}

void relay::note(ports::receipt&& receipt)
{
    for (auto& one : under_way_) {
        auto const position = receipt.row - one.first;
        if (position < 0 || position >= static_cast<std::int64_t>(one.receipts.size())) continue;
        --one.unanswered;
        auto& noted = one.receipts[static_cast<std::size_t>(position)];
        noted.status = receipt.status;
        noted.reason = std::move(receipt.reason);
        return;
    }
    // Else of a batch that was broken off.
}

void relay::settle(batch const& answered)
{
    std::vector<std::int64_t> confirmed;
    std::vector<ports::outbox::put_off> failed;
    bool unresolved = false;
    for (std::size_t i = 0; i < answered.rows.size(); ++i) {
        auto const& receipt = answered.receipts[i];
        auto const& row = answered.rows[i];
        if (receipt.status == ports::publish_status::confirmed) {
            confirmed.push_back(receipt.row);
        }
        else if (receipt.status == ports::publish_status::unresolved) {
            unresolved = true;  // stays as it is, due at once
            tell_trouble(receipt.reason);
        }
        else {
            failed.push_back(put_off(row.id, row.attempts, row.message.id, row.message.destination, receipt.reason));
        }
    }
    answered.from->settle(confirmed, failed);
    SKALD_FAILPOINT("relay.put_off");
    failures_in_a_row_ = unresolved ? failures_in_a_row_ + 1 : 0;
}

ports::outbox::put_off relay::put_off(std::int64_t row, int attempts, std::string const& key,
                                      std::string const& destination, std::string const& reason)
{
    log_.warning("outbox.not_sent",
                 {{"key", key}, {"destination", destination}, {"attempts", attempts + 1}, {"reason", reason}});
    return {row, reason, options_.put_off.wait(attempts + 1, random_)};
}

void relay::release_all() noexcept
{
    for (auto const& one : under_way_) free_.emplace_back(*one.from);
    under_way_.clear();
    for (auto const& one : free_) one.get().release();
}

// Once for each change, not once for each poll.
void relay::tell_trouble(std::string const& trouble)
{
    if (trouble == trouble_) return;
    trouble_ = trouble;
    if (trouble.empty()) log_.info("relay.available", {});
    else log_.warning("relay.waiting", {{"reason", trouble}});
}

}  // namespace skald::runtime
