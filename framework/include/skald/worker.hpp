// The worker: a service's process. It consumes the service's deliveries and runs its steps, relays its outbox, and
// serves its HTTP entry, until SIGTERM.
//
//     int main(int argc, char** argv)
//     {
//         return skald::run_service("payments", argc, argv, [](skald::worker& worker) {
//             worker.host(place_order, steps::charge_payment, charge_payment{});
//         });
//     }
#pragma once

#include <skald/batch.hpp>
#include <skald/config.hpp>
#include <skald/definition.hpp>
#include <skald/detail/hosted_step.hpp>
#include <skald/errors.hpp>
#include <skald/http_handler.hpp>
#include <skald/retry.hpp>
#include <skald/step.hpp>

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace skald {

/// A service's process: what it hosts, and what runs it.
/// Threads:  build it and call run() on one thread; stop() from any.
/// Lifetime: the steps and handlers passed to it live as long as it does.
class worker
{
public:
    /// Throws configuration_error. Connects to nothing yet.
    explicit worker(config settings);
    ~worker();
    worker(worker const&) = delete;
    worker& operator=(worker const&) = delete;

    /// Runs `step` for the deliveries of that step of that saga; `together` bounds how many share a transaction.
    /// Throws configuration_error if the step is not one of the definition's, or belongs to another service.
    template <class Data, step_kind... Kinds, std::derived_from<compensatable_step<Data>> Step>
    worker& host(definition<Data, Kinds...> const& saga, compensatable<Data> const& step, Step object,
                 retry policy = {}, batching const& together = {})
    {
        return add<Data>(saga, step.name, std::move(object), policy, together);
    }

    /// The same for a pivot.
    template <class Data, step_kind... Kinds, std::derived_from<pivot_step<Data>> Step>
    worker& host(definition<Data, Kinds...> const& saga, pivot<Data> const& step, Step object, retry policy = {},
                 batching const& together = {})
    {
        return add<Data>(saga, step.name, std::move(object), policy, together);
    }

    /// The same for a retriable step.
    template <class Data, step_kind... Kinds, std::derived_from<retriable_step<Data>> Step>
    worker& host(definition<Data, Kinds...> const& saga, retriable<Data> const& step, Step object, retry policy = {},
                 batching const& together = {})
    {
        return add<Data>(saga, step.name, std::move(object), policy, together);
    }

    /// A migration of the service's own tables, applied once, at start, in order of their names, after Skald's own.
    worker& migrate(std::string name, std::string_view sql);

    /// Handles requests with this method to `pattern`: a path whose segments are literal or a {parameter} that stands
    /// for one segment, "/carts/{id}/items/{sku}". A literal segment wins over a parameter, and the route of GET also
    /// handles HEAD. Each request runs in a transaction, which commits before the client gets the response; `key` says
    /// whether it runs only once for each Idempotency-Key.
    /// Throws configuration_error for a malformed method or pattern, and if a request would match two routes;
    /// "/sagas/{key}", "/problems/{type}", "/livez" and "/readyz" are Skald's.
    worker& route(std::string method, std::string pattern, http::idempotency key, http::entry_handler handler);

    /// A route for POST whose Idempotency-Key is required.
    worker& post(std::string pattern, http::entry_handler handler);

    /// A route for GET, whose idempotency is off.
    worker& get(std::string pattern, http::entry_handler handler);

    /// Determines the scope of a request's key; without it every request has the scope ''.
    worker& scope(http::scope_function scope_of);

    /// Connects, serves, and drains on SIGTERM, SIGINT or stop(). Waits for a database or broker that is unavailable.
    /// Call it once for each worker.
    ///
    /// Returns: 0 after a clean drain. If the drain is cut short (a second signal, or its time limit), the process ends
    ///          here with exit code 75, because a thread that is stuck in a step can't be stopped; what was not
    ///          committed is delivered again.
    /// Threads: starts its own, and returns when they have ended. SIGTERM and SIGINT are blocked meanwhile in this
    ///          thread and in those that it starts; SIGPIPE is ignored in the whole process from then on.
    /// Throws:  configuration_error for what waiting does not fix; what pqxx throws if a migration fails.
    int run();

    /// Does what SIGTERM does. May be called before run(), which then drains at once.
    void stop();

private:
    template <class Data, step_kind... Kinds, class Step>
    worker& add(definition<Data, Kinds...> const& saga, std::string_view name, Step object, retry policy,
                batching const& together)
    {
        if (together.serial_by && !together.serial_by.template is_of<Data>())
            throw configuration_error{"step " + std::string{name} +
                                      ": batching{.serial_by} is a member of another type than the saga's data"};
        return add(saga.name, saga.version, saga.steps, name, policy, together,
                   std::make_unique<detail::typed_step<Data, Step>>(std::move(object)));
    }

    worker& add(std::string_view definition, int version, std::span<planned_step const> plan, std::string_view step,
                retry policy, batching const& together, std::unique_ptr<detail::hosted_step> hosted);

    class implementation;
    std::unique_ptr<implementation> implementation_;
};

/// A whole main(): reads the environment and the command line (`--help` lists the settings), builds the worker, lets
/// `set_up` fill it, runs it, and prints errors as one line. Exit codes: 0 drained, 2 a setting is wrong, 75 cut short.
int run_service(std::string service, int argc, char const* const* argv, std::function<void(worker&)> const& set_up);

}  // namespace skald
