// A service: its name, its tables, the steps that it hosts and its routes. A function of your own builds it; a worker
// runs it in main(), and skald::testing::harness in tests:
//
//     skald::service payments()
//     {
//         skald::service s{"payments"};
//         s.migrate("0001_payments", tables::payments).host(place_order, steps::charge_payment, charge_payment{});
//         return s;
//     }
#pragma once

#include <skald/definition.hpp>
#include <skald/dependency.hpp>
#include <skald/detail/body_store_maker.hpp>
#include <skald/detail/explain_host.hpp>
#include <skald/detail/front_maker.hpp>
#include <skald/detail/hosted_external_step.hpp>
#include <skald/detail/hosted_step.hpp>
#include <skald/detail/transport_maker.hpp>
#include <skald/errors.hpp>
#include <skald/http_handler.hpp>
#include <skald/message_handler.hpp>
#include <skald/step.hpp>
#include <skald/step_hooks.hpp>
#include <skald/step_options.hpp>

#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace skald {

namespace detail {
struct service_parts;

/// A definition without its types.
struct definition_view
{
    std::string_view name;
    int version{};
    std::span<planned_step const> plan, retired;
    std::span<upcast_to const> upcasts;
};

template <class Data, step_kind... Kinds>
definition_view view_of(definition<Data, Kinds...> const& saga)
{
    auto const& [upcasts, upcast_count] = saga.upcasts;
    auto const& [retired, retired_count] = saga.retired_steps;
    return {saga.name, saga.version, saga.steps, {retired.data(), retired_count}, {upcasts.data(), upcast_count}};
}

}  // namespace detail

/// What a service consists of. It does nothing by itself and connects to nothing.
/// Threads:  one, until it is handed to a worker or a harness.
/// Lifetime: the steps, hooks and handlers that it is given live as long as what runs it.
/// Throws:   every function throws configuration_error where the argument can't work, with what to change.
class service
{
public:
    /// `name`: as in definitions: a lower-case letter, then lower-case letters, digits and dashes, 48 at most.
    explicit service(std::string name);
    /// Only what has not been handed on may still be used.
    service(service&&) noexcept;
    /// Likewise.
    service& operator=(service&&) noexcept;
    ~service();

    /// Runs `step` for the deliveries of that step of that saga. Throws if the step is not one of the definition's, or
    /// belongs to another service. A service must host all steps that a definition gives it, or it does not start: its
    /// queue receives their messages. Two versions of a definition may be hosted side by side: a message goes to the
    /// step of its own version or, where that is not hosted, of the next one that is.
    template <class Data, step_kind... Kinds, std::derived_from<compensatable_step<Data>> Step>
    service& host(definition<Data, Kinds...> const& saga, compensatable<Data> const& step, Step object,
                  step_options const& options = {})
    {
        return add<Data>(saga, step.name, std::move(object), options);
    }

    /// The same for a pivot.
    template <class Data, step_kind... Kinds, std::derived_from<pivot_step<Data>> Step>
    service& host(definition<Data, Kinds...> const& saga, pivot<Data> const& step, Step object,
                  step_options const& options = {})
    {
        return add<Data>(saga, step.name, std::move(object), options);
    }

    /// The same for a retriable step.
    template <class Data, step_kind... Kinds, std::derived_from<retriable_step<Data>> Step>
    service& host(definition<Data, Kinds...> const& saga, retriable<Data> const& step, Step object,
                  step_options const& options = {})
    {
        return add<Data>(saga, step.name, std::move(object), options);
    }

    /// A step of two transactions with a call between them: skald/external_step.hpp. For a pivot, or a retriable step.
    template <class Data, step_kind... Kinds, class Step>
    requires detail::is_external<Data, Step> service& host(definition<Data, Kinds...> const& saga,
                                                           pivot<Data> const& step, Step object,
                                                           step_options const& options = {})
    {
        return add_external<Data>(saga, step.name, std::move(object), {}, options);
    }
    /// The same after the pivot.
    template <class Data, step_kind... Kinds, class Step>
    requires detail::is_external_retriable<Data, Step> service& host(definition<Data, Kinds...> const& saga,
                                                                     retriable<Data> const& step, Step object,
                                                                     step_options const& options = {})
    {
        return add_external<Data>(saga, step.name, std::move(object), {}, options);
    }

    /// A compensatable one, with what undoes it: a compensation or an external_compensation.
    template <class Data, step_kind... Kinds, class Step, class Undo>
    requires(detail::is_external<Data, Step>&& detail::is_compensation<Data, Undo>) service& host(
        definition<Data, Kinds...> const& saga, compensatable<Data> const& step, Step object, Undo undo,
        step_options const& options = {})
    {
        return add_external<Data>(saga, step.name, std::move(object), std::move(undo), options);
    }

    /// A step that waits: skald/wait_step.hpp. A compensatable one has nothing to undo.
    template <class Data, step_kind... Kinds, step_kind Kind, class Step>
    requires(detail::is_sleep<Data, Step> ||
             (detail::is_wait<Data, Step> &&
              Kind != step_kind::retriable)) service& host(definition<Data, Kinds...> const& saga,
                                                           step_handle<Data, Kind> const& step, Step object,
                                                           step_options const& options = {})
    {
        return add_external<Data>(saga, step.name, std::move(object), {}, options);
    }

    /// A step that fits none of these does not compile, and the compiler's first line says why.
    template <class Data, step_kind... Kinds, class Other, step_kind Kind, class Step, class... Rest>
    service& host(definition<Data, Kinds...> const&, step_handle<Other, Kind> const&, Step const&, Rest const&...)
    {
        detail::explain_host<Data, Other, Kind, Step>();
        return *this;
    }

    /// Runs `handler`, a callable with (message_context&, Body&) that returns nothing or an outcome, once for each
    /// message of its queue: skald/message_handler.hpp. A rejection is recorded, and nothing follows from it. `name` is
    /// like a step's, and no step of this service has it. Throws for a name that is taken or malformed.
    template <class Body, class Handler>
    requires detail::handles<Body, Handler> service& on(std::string const& name, Handler handler,
                                                        message_options const& options = {})
    {
        if (options.run.serial_by && !options.run.serial_by.template is_of<Body>())
            throw configuration_error{"handler " + name +
                                      ": step_options{.serial_by} is a member of another type than the message's"};
        return add_handler(name, options, std::make_unique<detail::typed_handler<Body, Handler>>(std::move(handler)));
    }

    /// Another system that external steps call, with its limits. Call it before host() of those that name it. Throws if
    /// it is there already.
    service& dependency(std::string name, dependency_limits const& limits = {});

    /// What is called around every step, also of those that are hosted later. Call it once.
    service& hooks(step_hooks around);

    /// A migration of the service's own tables, applied once, at start, in order of their names, after Skald's own.
    /// `name`: at most 100 letters, digits, dots, dashes and underscores. A new one sorts after all that are applied,
    /// or the service does not start.
    service& migrate(std::string name, std::string_view sql);

    /// Handles requests with this method to `pattern`: a path whose segments are literal or a {parameter} that stands
    /// for one segment, "/carts/{id}/items/{sku}". A literal segment wins over a parameter, and the route of GET also
    /// handles HEAD. Each request runs in a transaction, which commits before the client gets the response; `key` says
    /// whether it runs only once for each Idempotency-Key.
    /// Throws for a malformed method or pattern, and if a request would match two routes; "/sagas/{key}",
    /// "/sagas/{key}/signals/{step}", "/problems/{type}", "/livez" and "/readyz" are Skald's.
    service& route(std::string method, std::string pattern, http::idempotency key, http::entry_handler handler);

    /// A route for POST whose Idempotency-Key is required.
    service& post(std::string pattern, http::entry_handler handler);

    /// A route for GET, whose idempotency is off.
    service& get(std::string pattern, http::entry_handler handler);

    /// Determines the scope of a request's key; without it every request has the scope ''.
    service& scope(http::scope_function scope_of);

    /// What stands in front of the guard for requests where SKALD_GUARD asks for it: skald::redis() (skald/redis.hpp).
    service& front(detail::front_maker make);

    /// What keeps large bodies where SKALD_BODY_STORE begins with `s3:`: skald::s3() (skald/s3.hpp).
    service& bodies(detail::body_store_maker make);

    /// What carries its messages where SKALD_TRANSPORT=kafka: skald::kafka() (skald/kafka.hpp). Every program has the
    /// other transports.
    service& transport(detail::transport_maker make);

    std::string const& name() const;  // the constructor's

    /// For Skald.
    detail::service_parts& parts() { return *parts_; }

private:
    template <class Data, step_kind... Kinds, class Step>
    service& add(definition<Data, Kinds...> const& saga, std::string_view name, Step object,
                 step_options const& options)
    {
        [[maybe_unused]] detail::needs_json_form<Data> const has_one;
        if (options.serial_by && !options.serial_by.template is_of<Data>())
            throw configuration_error{"step " + std::string{name} +
                                      ": step_options{.serial_by} is a member of another type than the saga's data"};
        return add(detail::view_of(saga), name, options,
                   std::make_unique<detail::typed_step<Data, Step>>(std::move(object)));
    }

    template <class Data, step_kind... Kinds, class Step, class Undo = detail::nothing_to_undo>
    service& add_external(definition<Data, Kinds...> const& saga, std::string_view name, Step object, Undo undo,
                          step_options const& options)
    {
        [[maybe_unused]] detail::needs_json_form<Data> const has_one;
        return add(detail::view_of(saga), name, options,
                   std::make_unique<detail::typed_external_step<Data, Step, Undo>>(std::move(object), std::move(undo)));
    }

    service& add(detail::definition_view const& saga, std::string_view step, step_options const& options,
                 std::unique_ptr<detail::hosted_step> hosted);

    service& add_handler(std::string name, message_options const& options, std::unique_ptr<detail::hosted_step> hosted);

    std::unique_ptr<detail::service_parts> parts_;
};

}  // namespace skald
