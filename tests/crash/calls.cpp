// Orders that a gateway charges: its own ledger, and where nobody but the gateway can know what a call has done.
#include "run.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace skald::crash {
namespace {

// What is known of a call is lost where the process is, or goes on elsewhere.
constexpr std::array<std::string_view, 4> in_a_call{"call.taken", "call.calling", "call.heartbeat", "call.called"};

bool is_in_a_call(std::string_view point)
{
    return std::ranges::find(in_a_call, point) != in_a_call.end();
}

}  // namespace

/// An operator reads the gateway's list, when nobody can send a request any more, and says what it says.
void run::answer_unknown()
{
    if (value(orders, "SELECT count(*) FROM skald.saga WHERE status = 'unknown' AND key = " + sql_text(key_)) == "0")
        return;
    was_unknown_ = true;
    if (!goes_.is_blind) return;  // the service finds out by itself
    bool const was_stopped = result_.what.action == "stop" && has_sprung();
    if (!shop_.look_after() || (was_stopped && shop_.arms(payments).hits()["call.called"] == 0)) return;
    auto const reference = value(orders, "SELECT id FROM customer_order WHERE customer = " + sql_text(person_));
    nlohmann::json answer{{"did_not_happen", "it is not in the list"}};
    for (auto const& one : shop_.gateway().charges())
        if (one.at("reference") == reference)
            answer = {{"happened", {{"id", one.at("id")}, {"amount", one.at("amount")}, {"declined", false}}}};
    value(payments, "SELECT skald.resolve_step('', " + sql_text(key_) + ", 'charge-payment', " +
                        sql_text(answer.dump()) + ", 'the list says so')");
}

/// What the other side did, by its own ledger: there is one charge, and all of it was given back or none.
void run::judge_gateway(placed const& order)
{
    auto const reference = value(orders, "SELECT id FROM customer_order WHERE customer = " + sql_text(order.person));
    std::string found, expected;
    for (auto const& one : shop_.gateway().charges())
        if (one.at("reference") == reference)
            found += one.at("amount").dump() + " charged, " + one.at("refunded").dump() + " refunded; ";
    for (int i = 0; i < order.goes->charges; ++i)
        expected += std::to_string(price) + " charged, " + std::to_string(price * order.goes->refunds) + " refunded; ";
    expect("I19", "the gateway's ledger", found, expected);
    expect("I19", "calls under way or in doubt", value(payments, "SELECT count(*) FROM skald.started"), "0");
    if (!goes_.is_blind && was_unknown_) result_.broken.emplace_back("I20 it was unknown, and the gateway could tell");
    if (goes_.is_blind && must_be_unknown() && !was_unknown_)
        result_.broken.emplace_back("I20 nobody could know, and it was not unknown");
    if (goes_.is_blind && was_unknown_ && !may_be_unknown())
        result_.broken.emplace_back("I20 it was unknown, and nothing of a call had been lost");
}

bool run::must_be_unknown() const
{
    auto const& what = result_.what;
    return result_.sprang && (what.action == "kill" || what.action == "throw") && is_in_a_call(what.point);
}

/// Or: a second transaction that had not committed.
bool run::may_be_unknown() const
{
    auto const& what = result_.what;
    if (what.action == "reset" && what.point.starts_with("call.")) return false;
    bool const is_after_commit = what.point == "step.committed" || what.point == "step.acked";
    return is_in_a_call(what.point) || (what.hit >= 2 && !is_after_commit && !what.point.starts_with("call."));
}

}  // namespace skald::crash
