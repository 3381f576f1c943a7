#include "entry/request_front.hpp"

#include "core/assert.hpp"
#include "entry/guard_responses.hpp"
#include "entry/request_guard.hpp"
#include "http/prefer.hpp"

namespace skald::entry_detail {
namespace {

using namespace std::chrono_literals;
using kind = ports::found::kind;

// `looks`: for a response too, since the epoch is known.
ports::found ask(known_requests& known, ports::question const& q, bool looks)
{
    auto const began = std::chrono::steady_clock::now();
    auto met = keeps_marks(known.way) ? known.front->acquire(q, looks) : known.front->find(q);
    known.front_counts.asked.at(static_cast<std::size_t>(met.what)).add();
    known.front_counts.seconds.observe(std::chrono::steady_clock::now() - began);
    return met;
}

}  // namespace

fronted ask_front(known_requests& known, guarded_request const& r)
{
    auto const& [message, to] = r;
    if (known.front == nullptr || !to.client_has_key) return {};
    bool const is_alone = known.is_alone(*to.by);
    if (!is_alone && known.front_rests()) {
        known.front_counts.not_asked.add();
        return {};
    }
    auto const seen = known.epochs.current();
    bool const looks = is_alone || (keeps_responses(known.way) && seen);
    if (!looks && !keeps_marks(known.way)) return {};
    auto const fingerprint = fingerprint_of(message);
    bool const has_database = !is_alone && seen;
    ports::question const q{to.id, fingerprint, has_database ? std::string_view{seen->epoch} : epoch_of_the_front,
                            has_database ? seen->now : core::instant{}};

    auto met = ask(known, q, looks);
    if (met.what == kind::result || met.what == kind::mismatch || met.what == kind::held) known.duplicates.saw(true);
    switch (met.what) {
    case kind::nothing: return {};
    case kind::result:
        if (!is_alone) known.responses.keep(*met.response);
        return {replayed(met.response->answer)};
    case kind::mismatch: return {key_reused()};
    case kind::acquired: return {std::nullopt, {*known.front, to.id, std::move(met.token)}};
    case kind::held: return {http::reply{in_flight(), http::wait_preference(message).value_or(0s)}};
    case kind::away:
        if (is_alone) return {front_away()};
        return {};
    }
    SKALD_ASSERT(false);
    return {};
}

}  // namespace skald::entry_detail
