// What a harness does with recorded deliveries.
#include "core/body_reference.hpp"
#include "core/envelope.hpp"
#include "core/recorded_delivery.hpp"
#include "runtime/upcasting.hpp"
#include "testing/harness_implementation.hpp"
#include "testing/prover.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace skald::testing {
namespace {

std::string service_of(core::message const& m)
{
    return m.destination.substr(0, m.destination.find('.'));
}

std::vector<core::message> recorded_for(inner::simulation& all, std::string_view lines)
{
    auto messages = core::read_recorded(lines);
    auto const services = all.services();
    for (auto const& one : messages)
        if (std::ranges::find(services, service_of(one)) == services.end())
            throw std::invalid_argument{"the recorded delivery " + one.id + " is for the service " + one.destination +
                                        ", which hosts nothing here: host its steps, or leave its line out"};
    return messages;
}

// Empty if the step, or the handler, that it is for can read it.
std::string why_not_read(core::message const& m, runtime::registry const& steps)
try {
    ports::delivery d;
    d.message = m;
    if (m.destination != service_of(m)) d.handler = m.destination.substr(m.destination.rfind('.') + 1);
    auto const t = runtime::route(std::move(d), service_of(m), steps);
    if (t.refused) return t.refused->why;
    if (auto const* const bad = std::get_if<runtime::unreadable_message>(&t.purpose)) return bad->why;
    if (t.step() != nullptr && !t.kept) runtime::read_for_run(*t.step(), t.data());
    return {};
}
catch (std::exception const& error) {
    return error.what();
}

using beginnings = std::map<std::pair<std::string, int>, std::pair<core::envelope, std::string>>;

// The deliveries with which sagas begin: the first of each version, and what it brought.
beginnings beginnings_in(std::vector<core::message> const& messages)
{
    beginnings found;
    for (auto const& one : messages) {
        if (one.destination != service_of(one) || one.type.starts_with("skald.")) continue;  // no step's
        auto const read = core::read_envelope(one);
        if (auto const* const no = std::get_if<core::refusal>(&read))
            throw data_error{"the recorded delivery " + one.id + " can't be read: " + no->why + "; leave its line out"};
        auto const* const e = std::get_if<core::envelope>(&read);
        if (e->itinerary.position != core::position{core::direction::forward, 0}) continue;
        if (core::is_kept_elsewhere(one))
            throw data_error{"the recorded delivery " + one.id +
                             " begins a saga whose data is kept elsewhere; record one that has its data, or leave its "
                             "line out"};
        found.try_emplace({e->definition, e->version}, *e, one.body);
    }
    if (found.empty())
        throw data_error{"recorded deliveries: none begins a saga, which is what a proof needs: record the first step "
                         "of one, with SKALD_RECORD_DELIVERIES in the service that has it"};
    return found;
}

}  // namespace

std::vector<proof> harness::prove_recorded(std::string_view lines, proof_options const& options)
{
    std::vector<proof> proofs;
    for (auto const& [name, begins] : beginnings_in(recorded_for(implementation_->begun(), lines))) {
        auto const& [with, data] = begins;
        std::vector<planned_step> plan;
        plan.reserve(with.itinerary.steps.size());
        for (auto const& one : with.itinerary.steps) plan.push_back({one.name, one.service, one.kind});
        proofs.push_back(prove({name.first, name.second, plan, data, {}}, options));
    }
    return proofs;
}

std::size_t harness::replay_recorded(std::string_view lines)
{
    auto const messages = recorded_for(implementation_->begun(), lines);
    for (auto const& one : messages) implementation_->all.send_again(one);
    return messages.size();
}

check_result harness::reads_recorded(std::string_view lines)
{
    std::string wrong;
    for (auto const& one : recorded_for(implementation_->begun(), lines)) {
        auto const why = why_not_read(one, implementation_->all.service(service_of(one)).steps());
        if (!why.empty()) wrong += "\n  " + one.id + ": " + why;
    }
    if (wrong.empty()) return check_result::success();
    return check_result::failure("what is hosted here is expected to read every recorded delivery, and does not:" +
                                 wrong);
}

}  // namespace skald::testing
