// Deliveries that are no step's: what other services tell of sagas, orders, and what can't be settled at all.
#include "runtime/executor.hpp"

#include "core/control_order.hpp"
#include "core/failpoint.hpp"

#include <skald/errors.hpp>

namespace skald::runtime {

// What another service tells of sagas, as one array: taken in whole, or parked.
void executor::note(ports::delivery const& d, std::vector<std::string> ports::changes::*told)
try {
    ports::changes changes;
    (changes.*told).push_back(detail::parse_checked(d.message.body).dump());
    store_.write(changes);
    SKALD_FAILPOINT_IF(d.message.type == core::progress_type, "progress.noted");
    SKALD_FAILPOINT_IF(d.message.type == core::forget_type, "forget.noted");
    SKALD_FAILPOINT_IF(d.message.type == core::forgotten_type, "forgotten.noted");
}
catch (data_error const& error) {
    park(d, "malformed", error.what());
}
catch (ports::fault const& met) {
    if (met.kind != ports::fault_kind::broken) throw;
    park(d, "malformed", met.what());
}

// What the delivery tells of sagas, if that is all it is and can be read.
std::optional<std::string> executor::read_progress(ports::delivery const& d) const
try {
    if (!d.problem.empty() || d.message.type != core::progress_type) return {};
    auto const told = detail::parse_checked(d.message.body);
    if (!told.is_array() || told.empty()) return {};
    return told.dump();
}
catch (data_error const&) {
    return {};
}

// An order for one saga, from its home. Whatever waits here for it is awake afterwards.
void executor::take_order(ports::delivery const& d)
{
    auto order = core::read_control_order(d.message.body);
    if (auto const* bad = std::get_if<core::bad_order>(&order)) return park(d, "malformed", bad->why);
    ports::changes changes;
    changes.orders.push_back(std::get<core::control_order>(std::move(order)));
    SKALD_FAILPOINT("order.read");
    SKALD_FAILPOINT("order.taking");
    store_.write(changes);
    SKALD_FAILPOINT("order.taken");
    out_.notify();
    log_.info("saga.order_taken", {{"id", d.message.id}});
}

void executor::park(ports::delivery const& d, std::string_view reason, std::string const& why)
{
    ports::parked_delivery parked{{}, {}, std::string{reason}, why, d.message, 0};
    auto const text = core::find_header(d.message.headers, core::header::idempotency_key).value_or(std::string_view{});
    if (auto const key = core::parse_derived_key(text)) {
        parked.saga = {
            std::string{core::find_header(d.message.headers, core::header::scope).value_or(std::string_view{})},
            key->key};
        parked.step = key->guarded_step();
    }
    ports::changes changes;
    changes.parked.push_back(std::move(parked));
    store_.write(changes);
    SKALD_FAILPOINT("delivery.parked");
    log_.error("delivery.parked", {{"key", text}, {"type", d.message.type}, {"reason", reason}, {"error", why}});
}

}  // namespace skald::runtime
