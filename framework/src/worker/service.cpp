#include <skald/service.hpp>

#include "core/envelope.hpp"
#include "core/identity.hpp"
#include "worker/hooked_step.hpp"
#include "worker/service_parts.hpp"

#include <skald/detail/deadline.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace skald {
namespace {

[[noreturn]] void refuse(std::string_view step, std::string const& why)
{
    throw configuration_error{"step " + std::string{step} + ": " + why};
}

void check(std::string_view step, step_kind kind, step_options const& options)
{
    auto const& policy = options.retry;
    if (policy.attempts_max > core::fencing_token_max)
        refuse(step, "a retry policy has at most " + std::to_string(core::fencing_token_max) + " attempts");
    if (policy.deadline > detail::deadline_max) refuse(step, "a deadline is at most 1000 years from the first try");
    if (policy.attempts_max < 1 || policy.first.count() < 0 || policy.longest < policy.first)
        refuse(step, "a retry policy has at least one attempt, and its longest wait is not below its first");
    if (policy.deadline.count() < 0 || (policy.deadline.count() > 0 && kind == step_kind::retriable))
        refuse(step, "a deadline is not below 0, and a retriable step has none: a saga that is past its pivot can't "
                     "compensate");
    if (options.batch < 1)
        refuse(step, "step_options{.batch} is at least 1: each delivery in a transaction of its own");
    if (options.prefetch > 10'000) refuse(step, "step_options{.prefetch} is at most 10000 deliveries");
}

}  // namespace

// Its queue receives the messages of all its steps: those of a step that is not hosted would be parked.
void detail::service_parts::check_complete() const
{
    auto const is_hosted = [this](std::string_view definition, std::string_view step) {
        return std::ranges::any_of(steps,
                                   [&](auto const& one) { return one.definition == definition && one.name == step; });
    };
    for (auto const& one : steps)
        for (auto const& planned : one.plan)
            if (planned.service == name && !is_hosted(one.definition, planned.name))
                throw configuration_error{"the definition " + one.definition + " gives the service " + name +
                                          " the step " + std::string{planned.name} +
                                          ", which it does not host: add it with host(), in this process too"};
}

service::service(std::string name) : parts_{std::make_unique<detail::service_parts>()}
{
    if (!core::is_name(name))
        throw configuration_error{"'" + name +
                                  "' is not a service's name: a lower-case letter, then lower-case letters, digits "
                                  "and dashes, 48 at most"};
    parts_->name = std::move(name);
}

service::service(service&&) noexcept = default;
service& service::operator=(service&&) noexcept = default;
service::~service() = default;

std::string const& service::name() const
{
    return parts_->name;
}

service& service::add(std::string_view definition, int version, std::span<planned_step const> plan,
                      std::string_view step, step_options const& options, std::unique_ptr<detail::hosted_step> hosted)
{
    auto const it = std::ranges::find(plan, step, &planned_step::name);
    if (it == plan.end())
        throw configuration_error{"the definition " + std::string{definition} + " has no step " + std::string{step}};
    if (it->service != name())
        throw configuration_error{"step " + std::string{step} + " belongs to the service " + std::string{it->service} +
                                  ", and this is " + name()};
    check(step, it->kind, options);
    for (auto const& one : parts_->steps)
        if (one.definition == definition && one.name == step)
            throw configuration_error{"step " + one.name + " of " + one.definition + " is hosted twice"};
    auto object = std::make_shared<worker_detail::hooked_step>(std::string{definition}, std::string{step},
                                                               std::move(hosted), parts_->hooks);
    parts_->steps.push_back(
        {std::string{definition}, plan, std::string{step}, {std::move(object), options, it->kind, version}});
    return *this;
}

service& service::hooks(step_hooks around)
{
    *parts_->hooks = std::move(around);
    return *this;
}

service& service::migrate(std::string name, std::string_view sql)
{
    parts_->migrations.push_back({std::move(name), std::string{sql}});
    return *this;
}

service& service::route(std::string method, std::string pattern, http::idempotency key, http::entry_handler handler)
try {
    if (method.empty() || !std::ranges::all_of(method, [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; }))
        throw configuration_error{"a route's method is upper-case letters, and not '" + method + "'"};
    if (!handler) throw configuration_error{"the route " + method + ' ' + pattern + " has no handler"};
    parts_->routes.add({std::move(method), std::move(pattern), key, std::move(handler)});
    return *this;
}
catch (std::logic_error const& error) {
    throw configuration_error{error.what()};
}

service& service::post(std::string pattern, http::entry_handler handler)
{
    return route("POST", std::move(pattern), http::idempotency::required, std::move(handler));
}

service& service::get(std::string pattern, http::entry_handler handler)
{
    return route("GET", std::move(pattern), http::idempotency::off, std::move(handler));
}

service& service::scope(http::scope_function scope_of)
{
    parts_->routes.set_scope(std::move(scope_of));
    return *this;
}

}  // namespace skald
