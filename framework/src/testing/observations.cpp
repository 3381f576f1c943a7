#include "testing/observations.hpp"

#include "skald_testing_queries.hpp"
#include "testing/final_state.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <iterator>
#include <regex>

namespace skald::testing::inner {
namespace {

template <class T>
void add_once(std::vector<T>& all, T one)
{
    if (std::ranges::find(all, one) == all.end()) all.push_back(std::move(one));
}

bool is_aborted(step_context& ctx)
try {
    ctx.tx().exec("SELECT");
    return false;
}
catch (pqxx::failure const&) {
    return true;
}

std::string made_outside(std::string const& step, std::string const& difference)
{
    auto const what = step.ends_with(".compensate") ? "the compensation " : "the step ";
    auto text =
        what + step +
        " made its effect outside its transaction: this could be seen while the transaction was still open:\n" +
        difference +
        "ROLLBACK does not undo it: after a crash, a fault or a rejection it is still there, and the next attempt does "
        "it again. Use ctx.sql() or ctx.tx(), which is the step's own connection and transaction.";
    if (step.ends_with(".compensate")) text += " A compensation that was half done starts again from its beginning.";
    return text;
}

std::string made_elsewhere(std::string const& step, std::string const& difference)
{
    return "the step " + step + " sent something to another system before its transaction was committed:\n" +
           difference +
           "A crash, a fault or a rejection does not take that back, and the next attempt sends it again. Send it with "
           "ctx.publish(), which sends after COMMIT; or give the other system ctx.key(), which is the same for every "
           "attempt, if it accepts each key once.";
}

}  // namespace

void observations::watch(simulation& w, std::vector<effect> const& effects)
{
    w.rules.observe = [this, &w, &effects](std::string const& step, bool behind, step_context& ctx) {
        observe(w, effects, step, behind, ctx);
    };
}

void observations::observe(simulation& w, std::vector<effect> const& effects, std::string const& step, bool behind,
                           step_context& ctx)
{
    if (!behind) {
        before_ = effects_of(w, effects);
        return;
    }
    if (is_aborted(ctx)) add_once(swallowed_, step);
    compare(step, effects_of(w, effects));
}

void observations::compare(std::string const& step, std::vector<section> const& now)
{
    auto const is_outside = [](section const& s) { return s.title.starts_with("outside: "); };
    for (bool const elsewhere : {false, true}) {
        std::vector<section> was, is;
        std::ranges::copy_if(before_, std::back_inserter(was),
                             [&](auto const& s) { return is_outside(s) == elsewhere; });
        std::ranges::copy_if(now, std::back_inserter(is), [&](auto const& s) { return is_outside(s) == elsewhere; });
        auto const what = difference(was, is);
        bool const is_known =
            std::ranges::any_of(outside_, [&](auto const& o) { return o.step == step && o.elsewhere == elsewhere; });
        if (!what.empty() && !is_known) outside_.push_back({step, what, elsewhere});
    }
}

void observations::collect(simulation& w)
{
    for (auto const& name : w.services())
        for (auto const& row : w.service(name).database().session().run(std::string{testing_queries::parked_errors}))
            if (row["reason"].c_str() == std::string_view{"transaction_ended"})
                add_once(ended_, std::string{row["step"].c_str()});
}

std::string observations::cause() const
{
    if (!ended_.empty())
        return "the step " + ended_.front() +
               " ran COMMIT or ROLLBACK itself, so that what it wrote, its record and the message to the next step no "
               "longer commit together. Skald begins and ends the transaction: leave that out; to undo a part of it "
               "use "
               "a SAVEPOINT.";
    if (!swallowed_.empty())
        return "the step " + swallowed_.front() +
               " went on after an SQL error that it had caught (swallowed): PostgreSQL has aborted its transaction, "
               "and nothing of it can be committed. Let the exception pass, or use a SAVEPOINT around what may fail.";
    for (auto const& one : outside_)
        return one.elsewhere ? made_elsewhere(one.step, one.difference) : made_outside(one.step, one.difference);
    return {};
}

std::string why_runs_differ(std::string const& difference)
{
    static std::regex const time{R"(\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d)"};
    static std::regex const random{R"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"};
    std::string const head = "a step does not do the same every time: its effect depends on ";
    std::string const tail =
        ". A second attempt of it would not do what the first one did. Take it from the saga's data, or "
        "name the effects so that it is left out where it does no harm.";
    if (std::regex_search(difference, random)) return head + "chance (a random id)" + tail;
    if (std::regex_search(difference, time)) return head + "the time at which it runs (now(), a clock)" + tail;
    return head +
           "something that the process remembers from run to run (a counter, a cache), on the time, or on chance" +
           tail;
}

}  // namespace skald::testing::inner
