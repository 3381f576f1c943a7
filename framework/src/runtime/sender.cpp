#include "runtime/sender.hpp"

#include "core/failpoint.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// Heartbeats and the broker's notices want a look now and then.
constexpr auto idle_wait = 500ms;

// While it is away everything goes the longer way, so one that is back should soon be seen.
constexpr auto look_for_broker = 50ms;

}  // namespace

sender::sender(sender_options options, outbound& out, ports::publisher& publisher, stop_flag const& stop,
               core::logger& log)
    : options_{options}, out_{out}, publisher_{publisher}, stop_{stop}, log_{log}
{}

void sender::run()
{
    while (!stop_.stopped()) try_to_turn(idle_wait);
    auto const until = clock::now() + options_.deadline;
    do try_to_turn(10ms);
    while (!unanswered_.empty() && clock::now() < until);
    tell(true);
    out_.close();
}

void sender::try_to_turn(std::chrono::milliseconds wait)
try {
    turn(wait);
}
catch (std::exception const& error) {
    log_.warning("outbox.not_handed_over", {{"reason", error.what()}});
    forget_all();
}

void sender::turn(std::chrono::milliseconds wait)
{
    if (publisher_.available()) {
        out_.open(publisher_);
    }
    else {
        out_.close();
        wait = std::min<std::chrono::milliseconds>(wait, look_for_broker);
    }
    bool const may_be_more = send() == options_.batch_max;
    for (auto const& receipt : publisher_.collect(may_be_more ? 0ms : patience(wait))) note(receipt);
    tell(false);
}

std::chrono::milliseconds sender::patience(std::chrono::milliseconds wait) const
{
    if (answers_.empty()) return wait;
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(answers_since_ + options_.told_after - clock::now());
    return std::clamp(left, 0ms, wait);
}

// Returns how many it took.
std::size_t sender::send()
{
    auto taken = out_.take(options_.batch_max);
    if (taken.empty()) return 0;
    std::vector<ports::outgoing> messages;
    messages.reserve(taken.size());
    auto const now = clock::now();
    for (auto& [message, bytes, good_until] : taken) {
        if (now >= good_until) {
            out_.leave_room(1, bytes);
            continue;
        }
        unanswered_[message.row] = {message.message.id, message.message.destination, bytes};
        messages.push_back(std::move(message));
    }
    SKALD_FAILPOINT("handed.taken");
    publisher_.send(messages, options_.deadline);
    SKALD_MUTANT("delete_before_confirm", for (auto const& m : messages) answers_.confirmed.push_back(m.row));
    return taken.size();
}

void sender::note(ports::receipt const& receipt)
{
    auto const found = unanswered_.find(receipt.row);
    if (found == unanswered_.end()) return;  // of a turn that was broken off
    auto& [key, destination, bytes] = found->second;
    out_.leave_room(1, bytes);
    if (answers_.empty()) answers_since_ = clock::now();
    // What is unresolved stays in the outbox as it is, and comes due.
    if (receipt.status == ports::publish_status::confirmed) answers_.confirmed.push_back(receipt.row);
    else if (receipt.status != ports::publish_status::unresolved)
        answers_.failed.push_back({receipt.row, std::move(key), std::move(destination), receipt.reason});
    unanswered_.erase(found);
}

void sender::tell(bool now)
{
    if (answers_.empty()) return;
    bool const is_time = answers_.confirmed.size() >= options_.told_max || !answers_.failed.empty() ||
                         clock::now() >= answers_since_ + options_.told_after;
    if (!now && !is_time) return;
    SKALD_FAILPOINT("handed.confirmed");
    out_.answer(std::exchange(answers_, {}));
}

void sender::forget_all()
{
    out_.close();
    for (auto const& [row, one] : unanswered_) out_.leave_room(1, one.bytes);
    unanswered_.clear();
    answers_ = {};
}

}  // namespace skald::runtime
