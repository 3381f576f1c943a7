#include "relay.hpp"

#include <iterator>

#include <nlohmann/json.hpp>

namespace bench_baseline {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t window_max = 1'000;
constexpr std::size_t deleted_together = 500;
constexpr int looked_up_together = 500;
constexpr auto look_again_after = 10ms;  // after a search that found something: a few more may have come
constexpr auto look_every = 100ms;
constexpr auto purge_every = 1s;

message read_row(rows const& found, int row)
{
    message m;
    m.type = found.at(row, 2);
    std::size_t size = 0;
    auto* const raw = PQunescapeBytea(reinterpret_cast<unsigned char const*>(found.at(row, 3).data()), &size);
    m.body.assign(reinterpret_cast<char const*>(raw), size);
    PQfreemem(raw);
    m.id = found.at(row, 4);
    auto const headers = nlohmann::json::parse(found.at(row, 5));
    for (auto const& [name, value] : headers.items()) m.headers.emplace_back(name, value.get<std::string>());
    m.destination = found.at(row, 6);
    return m;
}

}  // namespace

relay::relay(std::string const& database_url, std::string const& broker_url, role const& here)
    : database_{database_url, here.name, here.shop}, broker_{broker_url}
{
    // A delete lost in a crash means a message that is published twice, which the guard absorbs.
    database_.run_text("SET synchronous_commit = off");
    broker_.expect_confirms();
}

void relay::hand_over(std::vector<outgoing> messages)
{
    {
        std::lock_guard const lock{mutex_};
        std::ranges::move(messages, std::back_inserter(queue_));
    }
    handed_over_.notify_one();
}

std::vector<outgoing> relay::take_handed_over()
{
    std::unique_lock lock{mutex_};
    // While messages are unconfirmed, the relay waits for the confirms instead.
    if (unconfirmed_.empty()) handed_over_.wait_for(lock, 5ms, [&] { return !queue_.empty(); });
    return std::exchange(queue_, {});
}

void relay::run(std::stop_token const& stop)
{
    while (true) {
        auto messages = take_handed_over();
        bool const nothing_new = messages.empty();
        if (nothing_new && stop.stop_requested() && is_idle() && !database_.is_busy()) return;
        publish(std::move(messages));
        take_confirms(nothing_new ? 500us : 0us);
        delete_confirmed(nothing_new);
        if (!stop.stop_requested()) look_for_due();
    }
}

void relay::publish(std::vector<outgoing> messages)
{
    for (auto const& m : messages) {
        broker_.publish(m.content);
        unconfirmed_.emplace(++published_, m.row);
        if (unconfirmed_.size() >= window_max) take_confirms(1s);
    }
}

void relay::take_confirms(std::chrono::microseconds wait)
{
    while (!unconfirmed_.empty()) {
        auto const confirm = broker_.next_confirm(wait);
        if (!confirm) return;
        wait = 0us;
        auto const last = unconfirmed_.upper_bound(confirm->tag);
        auto const first = confirm->all_before ? unconfirmed_.begin() : unconfirmed_.lower_bound(confirm->tag);
        for (auto it = first; it != last; ++it) confirmed_.push_back(it->second);
        unconfirmed_.erase(first, last);
    }
}

void relay::delete_confirmed(bool even_a_few)
{
    if (confirmed_.empty() || (!even_a_few && confirmed_.size() < deleted_together) || database_.is_busy()) return;
    for (auto const row : being_deleted_) looked_up_.erase(row);
    being_deleted_ = std::exchange(confirmed_, {});
    database_.send("delete_confirmed", {bigint_array(being_deleted_)});
}

void relay::look_for_due()
{
    auto const now = clock::now();
    if (now < next_look_ || unconfirmed_.size() >= window_max / 2 || database_.is_busy()) return;
    if (now >= next_sweep_) {
        seen_at_ = "-infinity";  // what was committed late may be due earlier than what was seen
        seen_id_ = 0;
        next_sweep_ = now + purge_every;
    }
    auto const found = database_.run("take_due", {text(seen_at_), number(seen_id_), number(looked_up_together)});
    std::vector<outgoing> due;
    for (int i = 0; i < found.size(); ++i) {
        seen_id_ = found.number_at(i, 0);
        seen_at_ = found.at(i, 1);
        if (looked_up_.insert(seen_id_).second) due.push_back({seen_id_, read_row(found, i)});
    }
    next_look_ = now;
    if (found.size() < looked_up_together) next_look_ += due.empty() ? look_every : look_again_after;
    publish(std::move(due));
}

}  // namespace bench_baseline
