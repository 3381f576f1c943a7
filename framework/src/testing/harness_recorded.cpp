// What a harness does with recorded deliveries.
#include "core/recorded_delivery.hpp"
#include "runtime/upcasting.hpp"
#include "testing/harness_implementation.hpp"

#include <skald/errors.hpp>

#include <algorithm>
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

}  // namespace

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
