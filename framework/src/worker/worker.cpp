#include <skald/worker.hpp>

#include "core/envelope.hpp"
#include "core/log.hpp"
#include "postgres/migrate.hpp"
#include "postgres/postgres_outbox.hpp"
#include "postgres/postgres_store.hpp"
#include "rabbitmq/rabbitmq_transport.hpp"
#include "runtime/lane.hpp"
#include "runtime/registry.hpp"
#include "worker/descriptors.hpp"
#include "worker/process.hpp"
#include "worker/settings.hpp"
#include "worker/signals.hpp"
#include "worker/web.hpp"

#include <skald/detail/deadline.hpp>
#include <skald/errors.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace skald {
class worker::implementation
{
public:
    explicit implementation(config s)
        : settings{std::move(s)}, log{settings.service, core::parse_severity(settings.log_level)}
    {}

    void check_all_hosted() const;

    config settings;
    core::stderr_logger log;
    runtime::registry steps;
    std::map<std::string, std::vector<std::string>, std::less<>> planned;  // by definition: the steps of this service
    std::vector<postgres::migration> migrations;
    http::router known;  // detects invalid routes while the user's call is still on the stack
    worker_detail::own_routes own{known};
    std::vector<http::entry_route> routes;
    http::scope_function scope_of;
    runtime::stop_flag stop;
};

// Its queue receives the messages of all its steps: those of a step that is not hosted would be parked.
void worker::implementation::check_all_hosted() const
{
    for (auto const& [definition, names] : planned)
        for (auto const& name : names)
            if (steps.find(definition, name) == nullptr)
                throw configuration_error{
                    "the definition " + definition + " gives the service " + settings.service + " the step " + name +
                    ", and this worker does not host it: add it with host(), in this process too"};
}

worker::worker(config settings)
{
    settings.check();
    implementation_ = std::make_unique<implementation>(std::move(settings));
}

worker::~worker() = default;

worker& worker::add(std::string_view definition, int version, std::span<planned_step const> plan, std::string_view step,
                    retry policy, batching const& together, std::unique_ptr<detail::hosted_step> hosted)
{
    auto const it = std::ranges::find(plan, step, &planned_step::name);
    if (it == plan.end())
        throw configuration_error{"the definition " + std::string{definition} + " has no step " + std::string{step}};
    if (it->service != implementation_->settings.service)
        throw configuration_error{"step " + std::string{step} + " belongs to the service " + std::string{it->service} +
                                  ", and this is " + implementation_->settings.service};
    if (policy.attempts_max > core::fencing_token_max)
        throw configuration_error{"step " + std::string{step} + ": a retry policy has at most " +
                                  std::to_string(core::fencing_token_max) + " attempts"};
    if (policy.deadline > detail::deadline_max)
        throw configuration_error{"step " + std::string{step} +
                                  ": a deadline is at most 1000 years from the first try"};
    if (policy.attempts_max < 1 || policy.first.count() < 0 || policy.longest < policy.first)
        throw configuration_error{"step " + std::string{step} +
                                  ": a retry policy has at least one attempt, and its "
                                  "longest wait is not below its first"};
    if (policy.deadline.count() < 0 || (policy.deadline.count() > 0 && it->kind == step_kind::retriable))
        throw configuration_error{"step " + std::string{step} +
                                  ": a deadline is not below 0, and a retriable step has none: "
                                  "behind the pivot there is no way back"};
    if (together.max < 1)
        throw configuration_error{"step " + std::string{step} +
                                  ": batching{.max} is at least 1: each delivery in a "
                                  "transaction of its own"};
    if (together.prefetch > 10'000)
        throw configuration_error{"step " + std::string{step} + ": batching{.prefetch} is at most 10000 deliveries"};
    auto& planned = implementation_->planned[std::string{definition}];
    for (auto const& one : plan)
        if (one.service == implementation_->settings.service) planned.emplace_back(one.name);
    implementation_->steps.add(definition, step,
                               {std::move(hosted), policy, it->kind, version, together.max, together.lanes,
                                together.prefetch, together.serial_by});
    return *this;
}

worker& worker::migrate(std::string name, std::string_view sql)
{
    implementation_->migrations.push_back({std::move(name), std::string{sql}});
    return *this;
}

worker& worker::route(std::string method, std::string pattern, http::idempotency key, http::entry_handler handler)
try {
    if (method.empty() || !std::ranges::all_of(method, [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; }))
        throw configuration_error{"a route's method is upper-case letters, and not '" + method + "'"};
    if (!handler) throw configuration_error{"the route " + method + ' ' + pattern + " has no handler"};
    implementation_->known.add(method, pattern);
    implementation_->routes.push_back({std::move(method), std::move(pattern), key, std::move(handler)});
    return *this;
}
catch (std::logic_error const& error) {
    throw configuration_error{error.what()};
}

worker& worker::post(std::string pattern, http::entry_handler handler)
{
    return route("POST", std::move(pattern), http::idempotency::required, std::move(handler));
}

worker& worker::get(std::string pattern, http::entry_handler handler)
{
    return route("GET", std::move(pattern), http::idempotency::off, std::move(handler));
}

worker& worker::scope(http::scope_function scope_of)
{
    implementation_->scope_of = std::move(scope_of);
    return *this;
}

int worker::run()
{
    auto& own = *implementation_;
    own.check_all_hosted();
    worker_detail::need_descriptors(own.settings);
    worker_detail::signals const signals;  // before the first thread, so that every thread inherits the mask
    worker_detail::process process{own.settings, own.steps, own.stop, own.log};
    process.open_health();
    if (!process.prepare_database(own.migrations, signals)) return own.settings.migrate_only ? 75 : 0;
    if (own.settings.migrate_only) return 0;
    process.start(own.routes, own.scope_of);
    while (!own.stop.stopped() && !signals.wait(std::chrono::milliseconds{200})) process.supervise();
    return process.drain(signals) ? 0 : 75;
}

void worker::stop()
{
    implementation_->stop.stop();
}

int run_service(std::string service, int argc, char const* const* argv, std::function<void(worker&)> const& set_up)
try {
    for (std::string_view const argument : std::span{argv, static_cast<std::size_t>(argc)}.subspan(1)) {
        if (argument != "--help" && argument != "-h") continue;
        std::fputs(("usage: " + std::string{argv[0]} + " [--flag value]...\n\n" + config::help()).c_str(), stdout);
        return 0;
    }
    worker built{config::from_environment(std::move(service), argc, argv)};
    set_up(built);
    return built.run();
}
catch (std::exception const& error) {
    std::fputs((std::string{argv[0]} + ": " + error.what() + '\n').c_str(), stderr);
    return 2;
}

}  // namespace skald
