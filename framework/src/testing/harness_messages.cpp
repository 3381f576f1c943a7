// What a harness does with messages that belong to no saga.
#include "core/foreign_message.hpp"
#include "testing/harness_implementation.hpp"
#include "testing/prover.hpp"

#include <skald/errors.hpp>

#include <array>
#include <utility>

namespace skald::testing {
namespace {

core::message as_sent(std::string const& service, std::string const& handler, received_message const& what)
{
    core::message m;
    m.destination = core::handler_destination(service, handler);
    m.id = what.id;
    m.type = what.type;
    m.content_type = what.content_type;
    m.headers = what.headers;
    m.body = what.body;
    return m;
}

}  // namespace

void harness::send(std::string const& service, std::string const& handler, received_message const& what)
{
    auto& all = implementation_->begun();
    if (!all.hosts_handler(service, handler))
        throw configuration_error{"the service " + service + " has no message handler " + handler +
                                  ": add() it, with on()"};
    all.send_again(as_sent(service, handler, what));
}

proof harness::prove_exactly_once(std::string const& service, std::string const& handler, received_message const& what,
                                  proof_options const& options)
{
    implementation_->shown.clear();
    std::array const plan{planned_step{handler, service, step_kind::retriable}};
    inner::scenario one{"", 1, plan, what.body};
    one.received = as_sent(service, handler, what);
    auto proved = prover{implementation_->all, std::move(one), options}.prove();
    rewind();
    return proved;
}

}  // namespace skald::testing
