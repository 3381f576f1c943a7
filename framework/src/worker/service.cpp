#include <skald/service.hpp>

#include "core/envelope.hpp"
#include "core/identity.hpp"
#include "core/uuid.hpp"
#include "worker/hooked_step.hpp"
#include "worker/service_parts.hpp"

#include <skald/detail/deadline.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace skald {
namespace {

// `who` is in the user's words: "step charge", "message handler payment-created".
[[noreturn]] void refuse(std::string const& who, std::string const& why)
{
    throw configuration_error{who + ": " + why};
}

std::string step_named(std::string_view name)
{
    return "step " + std::string{name};
}

void check_call(std::string const& who, call_options const& call)
{
    if (call.lease < std::chrono::seconds{1})
        refuse(who, "call_options{.lease} is at least a second: it is renewed three times in that time");
    if (call.silence < call.lease)
        refuse(who, "call_options{.silence} is not below .lease: a call that may be silent for less than a lease could "
                    "not even be renewed once");
    if (call.look_first.count() < 1 || call.look_longest < call.look_first)
        refuse(who, "call_options{.look_first} is at least 1 ms, and .look_longest is not below it");
    if (call.unknown_after.count() < 0) refuse(who, "call_options{.unknown_after} is not below 0");
}

void check(std::string const& who, step_kind kind, step_options const& options)
{
    auto const& policy = options.retry;
    if (policy.attempts_max > core::fencing_token_max)
        refuse(who, "a retry policy has at most " + std::to_string(core::fencing_token_max) + " attempts");
    if (policy.deadline > detail::deadline_max) refuse(who, "a deadline is at most 1000 years from the first try");
    if (policy.attempts_max < 1 || policy.first.count() < 0 || policy.longest < policy.first)
        refuse(who, "a retry policy has at least one attempt, and its longest wait is not below its first");
    if (policy.deadline.count() < 0 || (policy.deadline.count() > 0 && kind == step_kind::retriable))
        refuse(who, "a deadline is not below 0, and a retriable step has none: a saga that is past its pivot can't "
                    "compensate");
    if (options.batch < 1) refuse(who, "step_options{.batch} is at least 1: each delivery in a transaction of its own");
    check_call(who, options.call);
    if (options.prefetch > 10'000) refuse(who, "step_options{.prefetch} is at most 10000 deliveries");
}

bool is_pointer(std::string const& text)
try {
    return text.starts_with('/') && !nlohmann::json::json_pointer{text}.empty();
}
catch (nlohmann::json::exception const&) {
    return false;
}

void check_binding(std::string const& who, message_binding const& one)
{
    if (one.exchange.empty() || one.exchange.size() > 255 || one.routing_key.size() > 255)
        refuse(who,
               "message_binding{.exchange} has 1 to 255 bytes, .routing_key at most 255: a queue can't be bound to "
               "the default exchange");
    constexpr std::array<std::string_view, 5> types{"", "direct", "topic", "fanout", "headers"};
    if (std::ranges::find(types, one.type) == types.end())
        refuse(who, "message_binding{.type} is direct, topic, fanout or headers, or empty if its owner declares the "
                    "exchange, and not '" +
                        one.type + "'");
}

void check_key(std::string const& who, message_key const& key)
{
    bool const has_members = key.by == message_key::kind::members || key.by == message_key::kind::uuid_v5;
    if (has_members && key.names.empty()) refuse(who, "a message_key of members names at least one");
    if (key.by == message_key::kind::header && key.names.front().empty())
        refuse(who, "message_key::header() is the name of a header");
    if (key.by == message_key::kind::uuid_v5 && !core::is_uuid(key.space))
        refuse(who, "the namespace of message_key::uuid_v5() is a UUID with dashes");
    if (key.by == message_key::kind::computed && !key.make) refuse(who, "message_key::computed() has no function");
    if (has_members)
        for (auto const& one : key.names)
            if (!is_pointer(one))
                refuse(who, "'" + one +
                                "' is no JSON pointer: it begins with a slash, \"/order/id\", and after a ~ comes "
                                "0 or 1");
}

}  // namespace

// The guard's record has the name, and neither the definition nor whether it is a handler's.
void detail::service_parts::check_names() const
{
    for (auto const& handler : steps)
        for (auto const& other : steps)
            if (&handler != &other && handler.hosted.handles && handler.name == other.name)
                throw configuration_error{"the message handler " + handler.name + " of service " + name +
                                          " has the name of another handler or of a step: each needs its own"};
}

// Its queue receives the messages of all its steps: those of a step that is not hosted would be parked.
void detail::service_parts::check_complete() const
{
    auto const newest = [this](std::string_view definition, std::string_view step) {
        int version = 0;
        for (auto const& one : steps)
            if (one.definition == definition && one.name == step) version = std::max(version, one.hosted.version);
        return version;
    };
    for (auto const& of : steps) {
        auto const refuse_without = [&](planned_step const& step) {
            int const hosted = step.service == name ? newest(of.definition, step.name) : of.hosted.version;
            if (hosted >= of.hosted.version) return;
            auto const with = of.hosted.version == 1 ? "" : " with version " + std::to_string(of.hosted.version);
            throw configuration_error{"the definition " + of.definition + " gives the service " + name + " the step " +
                                      std::string{step.name} + ", which it does not host" + with +
                                      ": add it with host(), in this process too"};
        };
        std::ranges::for_each(of.plan, refuse_without);
        std::ranges::for_each(of.retired, refuse_without);
        // A saga's data takes its newest form when a step changes what only that can say.
        for (auto const& [version, apply] : of.hosted.upcasts) {
            for (auto const& old : steps) {
                if (old.definition != of.definition || newest(old.definition, old.name) >= version) continue;
                throw configuration_error{"step " + old.name + " of " + old.definition +
                                          " is hosted with an older version alone, and version " +
                                          std::to_string(version) +
                                          " has another form of the data: let the newest definition name the step "
                                          "with .retired(), and host it with that one"};
            }
        }
    }
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

service& service::add(detail::definition_view const& saga, std::string_view step, step_options const& options,
                      std::unique_ptr<detail::hosted_step> hosted)
{
    std::string const definition{saga.name};
    auto it = std::ranges::find(saga.plan, step, &planned_step::name);
    if (it == saga.plan.end()) {
        it = std::ranges::find(saga.retired, step, &planned_step::name);
        if (it == saga.retired.end())
            throw configuration_error{"the definition " + definition + " has no step " + std::string{step}};
    }
    if (it->service != name())
        throw configuration_error{"step " + std::string{step} + " belongs to the service " + std::string{it->service} +
                                  ", and this is " + name()};
    check(step_named(step), it->kind, options);
    if (auto const& called = options.call.dependency; !called.empty() && !parts_->dependencies.contains(called))
        refuse(step_named(step), "it calls the dependency " + called + ", which service " + this->name() +
                                     " has not declared: call dependency(\"" + called + "\") before host()");
    for (auto const& one : parts_->steps)
        if (one.definition == definition && one.name == step && one.hosted.version == saga.version)
            throw configuration_error{"step " + one.name + " of " + one.definition + " is hosted twice"};
    auto object =
        std::make_shared<worker_detail::hooked_step>(definition, std::string{step}, std::move(hosted), parts_->hooks);
    runtime::registered_step one{std::move(object), options, it->kind, saga.version};
    one.upcasts.assign(saga.upcasts.begin(), saga.upcasts.end());
    parts_->steps.push_back({definition, saga.plan, saga.retired, std::string{step}, std::move(one)});
    parts_->check_names();
    return *this;
}

service& service::add_handler(std::string name, message_options const& options,
                              std::unique_ptr<detail::hosted_step> hosted)
{
    if (!core::is_name(name))
        throw configuration_error{"'" + name +
                                  "' is not a handler's name: a lower-case letter, then lower-case letters, digits and "
                                  "dashes, 48 at most. The routing key of what it handles belongs in "
                                  "message_options{.bind}"};
    auto const who = "message handler " + name;
    if (options.run.retry.deadline.count() != 0)
        refuse(who, "it has no deadline: a message is tried as often as `.retry` says, and then parked");
    check(who, step_kind::retriable, options.run);
    check_key(who, options.key);
    if (options.scope) check_key(who, *options.scope);
    for (auto const& one : options.bind) check_binding(who, one);
    auto object = std::make_shared<worker_detail::hooked_step>("", name, std::move(hosted), parts_->hooks);
    runtime::registered_step one{std::move(object), options.run, step_kind::retriable, 1};
    one.handles = std::make_shared<message_options>(options);
    parts_->steps.push_back({"", {}, {}, std::move(name), std::move(one)});
    parts_->check_names();
    return *this;
}

service& service::dependency(std::string name, dependency_limits const& limits)
{
    auto const refuse_it = [&name](std::string const& why) {
        throw configuration_error{"dependency " + name + ": " + why};
    };
    if (!core::is_name(name))
        throw configuration_error{"'" + name +
                                  "' is not a dependency's name: a lower-case letter, then lower-case "
                                  "letters, digits and dashes, 48 at most"};
    if (limits.at_a_time < 1) refuse_it("dependency_limits{.at_a_time} is at least 1");
    if (!(limits.failures > 0 && limits.failures <= 1))
        refuse_it("dependency_limits{.failures} is above 0, and at most 1");
    if (limits.calls_min < 1 || limits.window.count() < 100)
        refuse_it("dependency_limits{.calls_min} is at least 1, and .window at least 100 ms");
    if (limits.open_first.count() < 1 || limits.open_longest < limits.open_first)
        refuse_it("dependency_limits{.open_first} is at least 1 ms, and .open_longest is not below it");
    if (!parts_->dependencies.emplace(name, limits).second) refuse_it("it is declared twice");
    return *this;
}

service& service::hooks(step_hooks around)
{
    *parts_->hooks = std::move(around);
    return *this;
}

service& service::migrate(std::string name, std::string_view sql)
{
    constexpr auto allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    if (name.empty() || name.size() > 100 || name.find_first_not_of(allowed) != std::string::npos)
        throw configuration_error{
            "a migration's name is at most 100 letters, digits, dots, dashes and underscores, such "
            "as 0001_tables, and not '" +
            name + "'"};
    if (std::ranges::find(parts_->migrations, name, &postgres::migration::name) != parts_->migrations.end())
        throw configuration_error{"the migration " + name + " is there twice"};
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

service& service::front(detail::front_maker make)
{
    parts_->front = std::move(make);
    return *this;
}

service& service::bodies(detail::body_store_maker make)
{
    parts_->bodies = std::move(make);
    return *this;
}

service& service::transport(detail::transport_maker make)
{
    parts_->transport = std::move(make);
    return *this;
}

service& service::scope(http::scope_function scope_of)
{
    parts_->routes.set_scope(std::move(scope_of));
    return *this;
}

}  // namespace skald
