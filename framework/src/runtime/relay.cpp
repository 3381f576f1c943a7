#include "runtime/relay.hpp"

#include "core/failpoint.hpp"

#include <algorithm>

namespace skald::runtime {

relay::relay(relay_options options, ports::outbox& outbox, ports::publisher& publisher, wakeup& wake,
             stop_flag const& stop, core::logger& log, std::mt19937_64 random)
    : options_{options}, outbox_{outbox}, publisher_{publisher}, wake_{wake}, stop_{stop}, log_{log}, random_{random}
{}

void relay::run()
{
    while (!stop_.stopped()) {
        if (try_to_move() > 0) continue;  // there may be more
        if (failures_in_a_row_ > 0) stop_.wait(backoff_.wait(failures_in_a_row_, random_));
        else wake_.wait(options_.poll);
    }
    try_to_move();
}

std::size_t relay::try_to_move()
try {
    publisher_.tend();
    if (!publisher_.available()) {
        tell_trouble(publisher_.trouble());
        failures_in_a_row_ = std::max(failures_in_a_row_, 1);
        return 0;
    }
    auto const moved = move_batch();
    return moved;
}
catch (std::exception const& error) {
    outbox_.release();
    ++failures_in_a_row_;
    tell_trouble(error.what());
    return 0;
}

std::size_t relay::move_batch()
{
    auto const rows = outbox_.take(options_.batch_max);
    if (rows.empty()) {
        failures_in_a_row_ = 0;
        return 0;
    }
    SKALD_FAILPOINT("relay.taken");
    std::vector<ports::outgoing> messages;
    messages.reserve(rows.size());
    for (auto const& row : rows) messages.push_back({row.id, row.message});
    SKALD_MUTANT("delete_before_confirm", outbox_.settle_all());

    auto const receipts = publisher_.publish(messages, options_.deadline);
    SKALD_FAILPOINT("relay.confirmed");
    bool const all_confirmed =
        std::ranges::all_of(receipts, [](auto const& r) { return r.status == ports::publish_status::confirmed; });
    if (all_confirmed) outbox_.settle_all();
    else settle(rows, receipts);
    SKALD_FAILPOINT("relay.deleted");
    failures_in_a_row_ = all_confirmed ? 0 : failures_in_a_row_;
    if (all_confirmed) tell_trouble({});
    return all_confirmed ? rows.size() : 0;
}

void relay::settle(std::vector<ports::outbox::row> const& rows, std::vector<ports::receipt> const& receipts)
{
    std::vector<std::int64_t> confirmed;
    std::vector<ports::outbox::put_off> failed;
    bool unresolved = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        auto const& receipt = receipts[i];
        if (receipt.status == ports::publish_status::confirmed) {
            confirmed.push_back(receipt.row);
        }
        else if (receipt.status == ports::publish_status::unresolved) {
            unresolved = true;  // stays as it is, due at once
            tell_trouble(receipt.reason);
        }
        else {
            log_.warning("outbox.not_sent", {{"key", rows[i].message.id}, {"destination", rows[i].message.destination},
                                             {"tries", rows[i].attempts + 1}, {"reason", receipt.reason}});
            failed.push_back({receipt.row, receipt.reason, options_.put_off.wait(rows[i].attempts + 1, random_)});
        }
    }
    outbox_.settle(confirmed, failed);
    SKALD_FAILPOINT("relay.put_off");
    failures_in_a_row_ = unresolved ? failures_in_a_row_ + 1 : 0;
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
