#include "testing/simulation.hpp"

#include "admin/commands.hpp"
#include "core/command.hpp"
#include "core/envelope.hpp"
#include "core/fingerprint.hpp"
#include "postgres/literal.hpp"
#include "skald_testing_queries.hpp"

#include <skald/errors.hpp>

#include <pqxx/pqxx>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace skald::testing::inner {
namespace {

// "charge-payment.compensate" from "order-42:charge-payment.compensate"; a command's id is different every time.
std::string plain_name(core::message const& m)
{
    if (m.type == core::control_type) return "control@" + m.destination;
    if (auto const at = m.destination.find(".on."); at != std::string::npos) return m.destination.substr(at + 4);
    return m.id.substr(m.id.rfind(':') + 1);
}

// The same for two copies of one message; different for the next attempt.
std::string identity_of(core::message const& m)
{
    auto const of = [&m](std::string_view header) { return core::find_header(m.headers, header).value_or(""); };
    return core::fingerprint_of_parts(
        {m.destination, m.id, of(core::header::attempt), of(core::header::snoozes), of(core::header::scope), m.body});
}

std::string text_of(core::saga_id const& saga)
{
    return saga.scope + '\n' + saga.key;
}

void shift(core::message& m, std::string_view header, std::chrono::milliseconds time)
{
    for (auto& [name, value] : m.headers)
        if (name == header)
            if (auto const at = core::parse_instant(value)) value = core::write_instant(*at - time);
}

}  // namespace

node& simulation::service(std::string const& name)
{
    auto& found = nodes_[name];
    if (!found) {
        found = std::make_unique<node>(name, fault_plan, rules, [this](core::message const& m) { return name_of(m); });
        in_order_.push_back(found.get());
    }
    return *found;
}

std::vector<std::string> simulation::services() const
{
    std::vector<std::string> names;
    for (auto const* one : in_order_) names.push_back(one->name());
    return names;
}

bool simulation::makes_calls(std::string_view step) const
{
    return std::ranges::any_of(in_order_, [&](node const* one) {
        auto const calls = one->calls();
        return std::ranges::find(calls, step) != calls.end();
    });
}

std::optional<ports::started_kind> simulation::started_kind_of(scenario const& what, std::string_view step,
                                                               bool is_forward) const
{
    for (auto const* one : in_order_)
        if (one->hosts(what.definition, step)) return one->started_kind_of(what.definition, step, is_forward);
    return {};
}

std::vector<std::string> simulation::started()
{
    std::vector<std::string> steps;
    for (auto* one : in_order_)
        for (auto const& row : one->database().run(testing_queries::started)) steps.emplace_back(row["step"].c_str());
    return steps;
}

void simulation::require_hosted(scenario const& what) const
{
    for (auto const& step : what.plan) {
        auto const at = nodes_.find(std::string{step.service});
        if (at != nodes_.end() && at->second->hosts(what.definition, step.name)) continue;
        throw configuration_error{"no service hosts the step " + std::string{step.name} + " of " +
                                  std::string{what.definition} + ": add() the service " + std::string{step.service} +
                                  ", with host() for every step of its own"};
    }
}

void simulation::open()
{
    if (!server_) server_ = std::make_unique<server>(url_);
    for (auto* one : in_order_) one->open(*server_);
}

void simulation::begin()
{
    open();
    hand_.clear();
    named_.clear();
    homes_.clear();
    fault_plan = {};
    rules.clear();
    for (auto const& one : outside)
        if (one.clear) one.clear();
    transport_.emplace();
    for (auto* one : in_order_) one->begin(*transport_);
}

std::string simulation::start(scenario const& what, start_options const& options)
{
    require_hosted(what);
    if (!has_begun()) begin();
    if (what.received) {
        send_again(*what.received);
        return {};
    }
    auto& at = service(std::string{what.plan.front().service});
    pqxx::work tx{at.database().session().raw()};
    auto const started =
        skald::detail::start_saga(tx, what.definition, what.version, what.plan, what.data, what.attributes, options);
    tx.commit();
    homes_[text_of({options.scope, started.key})] = &at;
    at.wake();
    return started.key;
}

node* simulation::home(core::saga_id const& saga)
{
    if (auto const it = homes_.find(text_of(saga)); it != homes_.end()) return it->second;
    // Started by a step or a message handler.
    auto const query = postgres::filled_in(testing_queries::sagas{.scope = saga.scope, .key = saga.key});
    auto const at =
        std::ranges::find_if(in_order_, [&](node* one) { return !one->database().session().run(query).empty(); });
    return at == in_order_.end() ? nullptr : *at;
}

bool simulation::pull()
{
    for (bool moved = true; moved;) {
        moved = false;
        for (auto* one : in_order_) {
            try {
                moved = one->relay() || moved;
            }
            catch (crashed const&) {
                crash(*one);
                moved = true;
            }
            for (auto& d : one->take()) hand_.push_back({name_of(d.message), one, std::move(d)});
        }
    }
    return !hand_.empty();
}

bool simulation::go_on()
{
    return std::ranges::any_of(in_order_, [this](node* one) {
        try {
            return one->go_on();
        }
        catch (crashed const&) {
            crash(*one);
            return true;
        }
    });
}

void simulation::process(std::size_t place)
{
    auto const it = hand_.begin() + static_cast<std::ptrdiff_t>(place);
    auto const now = *it;
    try {
        now.at->process(now.delivery);
        hand_.erase(it);
    }
    catch (crashed const&) {
        crash(*now.at);
    }
}

void simulation::process_copy(held const& was)
{
    auto copy = was.delivery;
    copy.returns = 1;
    copy.tag = {};  // the broker does not know this copy
    try {
        was.at->process(copy);
    }
    catch (crashed const&) {
        crash(*was.at);
    }
}

void simulation::process_twice_at_once(std::size_t place)
{
    auto const now = hand_[place];
    fault_plan.at_next_claim([now] { now.at->process_apart(now.delivery); });
    process(place);
}

void simulation::swap_with_next(std::size_t place)
{
    std::swap(hand_[place], hand_[place + 1]);
}

// Its unacked deliveries come again, in their original order.
void simulation::crash(node& dead)
{
    std::erase_if(hand_, [&](held const& h) { return h.at == &dead; });
    dead.die(*transport_);
}

void simulation::send_again(core::message const& what)
{
    transport_->inject(what);
}

void simulation::require_settled()
{
    constexpr int tries_max = 20;
    for (auto* one : in_order_) {
        for (auto const& row : one->database().run(testing_queries::unsettled{.tries_max = tries_max})) {
            bool const is_call = row["kind"].c_str() == std::string_view{"call"};
            throw std::runtime_error{std::string{row["step"].c_str()} + " in " + one->name() + " does not end, after " +
                                     row["tries"].c_str() + " tries: " + row["error"].c_str() + ". What " +
                                     (is_call ? "settle() or abandon() throws"
                                              : "arrived(), timed_out() or abandon() throws, and a signal "
                                                "that does not fit their type,") +
                                     " is tried again without end: mend the step, or what it is given"};
        }
    }
}

bool simulation::advance_to_next()
{
    require_settled();
    std::optional<std::chrono::milliseconds> soonest;
    for (auto* one : in_order_) {
        auto const due = one->database().next_due();
        if (due && (!soonest || *due < *soonest)) soonest = due;
    }
    if (soonest) advance(*soonest);
    return soonest.has_value();
}

void simulation::advance(std::chrono::milliseconds time)
{
    pull();
    for (auto* one : in_order_) {
        one->advance(time);
    }
    for (auto& one : hand_) {
        shift(one.delivery.message, core::header::saga_deadline, time);
        shift(one.delivery.message, core::header::step_deadline, time);
        shift(one.delivery.message, core::header::waits_since, time);
    }
}

signal_result simulation::signal(core::saga_id const& saga, std::string_view step, std::string const& body)
{
    auto* const at = home(saga);
    if (at == nullptr) return signal_result::no_saga;
    pqxx::work tx{at->database().session().raw()};
    auto const said = signal_saga(tx, saga.key, step, body, saga.scope);
    tx.commit();
    at->wake();
    return said;
}

std::string simulation::cancel(core::saga_id const& saga)
{
    auto* const at = home(saga);
    if (at == nullptr) return "no saga " + saga.key + " was started here";
    auto const answer = admin::issue(at->database().session(), {"cancel", saga, "cancelled by the test", "the test"});
    at->wake();
    return answer.contains("refused") ? answer["refused"].get<std::string>() : "";
}

std::string simulation::name_of(core::message const& m)
{
    auto const name = plain_name(m);
    auto& known = named_[name];
    auto const it = std::ranges::find(known, identity_of(m));
    auto const number = it - known.begin() + 1;
    if (it == known.end()) known.push_back(identity_of(m));
    return number == 1 ? name : name + '#' + std::to_string(number);
}

}  // namespace skald::testing::inner
