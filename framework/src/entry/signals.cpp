#include "entry/signals.hpp"

#include "admin/saga_view.hpp"
#include "http/problem.hpp"

#include <skald/detail/external_work.hpp>
#include <skald/errors.hpp>
#include <skald/saga.hpp>

namespace skald::entry_detail {
namespace {

/// As its step here reads it. Elsewhere nobody can tell.
void refuse_misfit(http::request_context& ctx, runtime::registry const& steps)
{
    auto const of = admin::find_definition(ctx.tx(), {ctx.scope(), ctx.parameter("key")});
    auto const* const step = of ? steps.find(of->name, ctx.parameter("step"), of->version) : nullptr;
    auto const* const work = step == nullptr || step->step == nullptr ? nullptr : step->step->external(true);
    if (work == nullptr) return;
    if (auto const why = work->why_no_signal(ctx.request().body)) throw http::body_error{*why};
}

http::response respond(http::request_context& ctx)
try {
    auto const& key = ctx.parameter("key");
    auto const& step = ctx.parameter("step");
    switch (signal_saga(ctx.tx(), key, step, ctx.request().body, ctx.scope())) {
    case signal_result::taken: return {202, "application/json", {}, R"({"signal": "taken"})"};
    case signal_result::sent:
        return {202,
                "application/json",
                {},
                R"({"signal": "sent", "detail": "to the step's service, which alone knows whether the step waits"})"};
    case signal_result::duplicate: return {200, "application/json", {}, R"({"signal": "taken before"})"};
    case signal_result::mismatch:
        return http::problem(409, "another signal was sent to this step: the first one counts");
    case signal_result::late: return http::problem(409, "the step has ended: the signal is too late");
    case signal_result::no_saga: return http::problem(404, "there is no such saga");
    case signal_result::no_step: return http::problem(404, "the saga has no step of that name");
    case signal_result::no_wait: return http::problem(404, "the step " + step + " never waits for a signal");
    }
    return http::problem(500, "");
}
catch (data_error const& error) {
    throw http::body_error{error.what()};
}

}  // namespace

route signal_route()
{
    return {"POST", "/sagas/{key}/signals/{step}", http::idempotency::required, respond, refuse_misfit, true};
}

}  // namespace skald::entry_detail
