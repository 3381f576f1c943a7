#include "entry/saga_resource.hpp"

#include "admin/commands.hpp"
#include "http/prefer.hpp"
#include "http/problem.hpp"
#include "http/target.hpp"
#include "postgres/faults.hpp"
#include "postgres/standby_wait.hpp"

#include <skald/http_handler.hpp>

namespace skald::entry_detail {
namespace {

using namespace std::chrono_literals;

http::response no_such_saga()
{
    return http::problem(404, "there is no such saga");
}

bool has_ended(admin::saga_facts const& saga)
{
    return saga.finished_at.has_value();
}

http::response answer(int status, admin::saga_facts const& saga)
{
    auto view = admin::to_customer_json(saga);
    auto const here = http::saga_path(saga.id.key);
    view["links"] = {{"self", {{"href", here}}}};
    if (!has_ended(saga)) view["links"]["end"] = {{"href", here + "?wait=30"}};
    if (saga.can_be_cancelled) view["links"]["cancel"] = {{"href", here}, {"method", "DELETE"}};
    return http::json_response(status, view);
}

// Whether a cancel was commanded and still applies: after the pivot it comes too late.
bool is_cancelled(admin::saga_facts const& saga)
{
    return saga.command && saga.command->action == "cancel" && !saga.past_pivot &&
           saga.status != core::saga_state::completed;
}

// The command's own refusal is for operators: it contains the text of the error.
std::string why_not_cancelled(admin::saga_facts const& saga)
{
    auto const which = "saga " + saga.id.key;
    if (has_ended(saga)) return which + " has ended: it is " + std::string{core::name_of(saga.status)};
    return which + (saga.past_pivot ? " is past the pivot: it can only go forward" : " is compensating already");
}

}  // namespace

http::reply saga_resource::show(http::request const& r, core::saga_id const& id)
try {
    auto const asked = http::query_parameter(r.query, "wait");
    auto const max_wait = asked ? http::parse_seconds(*asked) : http::wait_preference(r).value_or(0s);
    if (!max_wait) return http::problem(http::problem_type::wait, "?wait= is a whole number of seconds");
    if (!core::is_key(id.key)) return no_such_saga();
    auto const saga = store_.read([&](postgres::connection& c) { return admin::find_saga(c, id); });
    if (!saga) return no_such_saga();
    return {answer(200, *saga), has_ended(*saga) ? 0s : *max_wait};
}
catch (std::exception const& error) {
    return failed("saga.not_shown", error);
}

http::response saga_resource::cancel(core::saga_id const& id)
{
    bool is_asked = false;
    try {
        if (!core::is_key(id.key)) return no_such_saga();
        return store_.read([&](postgres::connection& c) { return try_to_cancel(c, id, is_asked); });
    }
    catch (std::exception const& error) {
        auto const met = postgres::classify_current_at_commit_of_ours();
        if (is_asked && met.kind == ports::fault_kind::in_doubt) return in_doubt(id, met.what());
        return failed("saga.not_cancelled", error);
    }
}

http::response saga_resource::try_to_cancel(postgres::connection& c, core::saga_id const& id, bool& is_asked)
{
    auto const saga = admin::find_saga(c, id);
    if (!saga) return no_such_saga();
    is_asked = true;
    if (is_cancelled(*saga)) {
        store_.wait_for_standbys(c);  // the commit that cancelled it may not have waited
        return c.warning().empty() ? answer(has_ended(*saga) ? 200 : 202, *saga) : in_doubt(id, c.warning());
    }
    auto const done = admin::issue(c, {"cancel", id, "cancelled over HTTP", "a client over HTTP"});
    if (done.contains("left"))  // first: who asks again is not told by the log
        log_.warning("saga.cancel_left", {{"key", id.key}, {"left", done["left"].get<std::string>()}});
    if (!c.warning().empty()) return in_doubt(id, c.warning());
    auto const now = admin::find_saga(c, id).value_or(*saga);
    if (done.contains("refused")) return http::problem(http::problem_type::not_cancellable, why_not_cancelled(now));
    wake_();
    return answer(202, now);
}

http::response saga_resource::in_doubt(core::saga_id const& id, std::string const& why)
{
    log_.warning("saga.cancel_in_doubt", {{"key", id.key}, {"error", why}});
    return http::with_retry_after(
        http::problem(http::problem_type::outcome_unknown,
                      "the saga may be cancelled, and the database can't say so for good; send "
                      "the same DELETE again"),
        1s);
}

http::response saga_resource::failed(char const* event, std::exception const& error)
{
    log_.warning(event, {{"error", error.what()}});
    // A row that fails once fails every time: a client that retried would do so forever.
    if (postgres::classify_current_of_ours().kind == ports::fault_kind::broken)
        return http::problem(500, "the saga can't be shown or changed; the service's log says why");
    return http::with_retry_after(http::problem(http::problem_type::unavailable, "the database is away; ask again"),
                                  1s);
}

}  // namespace skald::entry_detail
