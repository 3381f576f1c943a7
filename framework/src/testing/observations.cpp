#include "testing/observations.hpp"

#include "skald_testing_queries.hpp"
#include "testing/final_state.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <iterator>

namespace skald::testing::inner {
namespace {

template <class T>
void add_once(std::vector<T>& all, T one)
{
    if (std::ranges::find(all, one) == all.end()) all.push_back(std::move(one));
}

constexpr auto look_only_asks =
    "It is asked whenever nobody knows what a call did, and as often as that takes: it must only ask.";
constexpr auto no_is_final =
    "So it was done again. It has to find a call by ctx.key(), and to say unknown() where the other system can't tell.";
constexpr auto yes_is_sure = ". So it was never done. It has to find a call by ctx.key(), and to say unknown() where "
                             "the other system can't tell.";

bool is_aborted(step_context& ctx)
try {
    ctx.tx().exec("SELECT");
    return false;
}
catch (pqxx::failure const&) {
    return true;
}

// "the step charge", "the compensation charge.compensate", "settle() of charge".
std::string in_words(std::string const& step)
{
    auto const dot = step.rfind('.');
    auto const last = dot == std::string::npos ? std::string{} : step.substr(dot + 1);
    if (last == "compensate") return "the compensation " + step;
    return last.empty() ? "the step " + step : last + "() of " + step.substr(0, dot);
}

std::string made_outside(std::string const& step, std::string const& difference)
{
    auto text =
        in_words(step) +
        " made its effect outside its transaction: this could be seen while the transaction was still open:\n" +
        difference +
        "ROLLBACK does not undo it: after a crash, a fault or a rejection it is still there, and the next attempt does "
        "it again. Use ctx.sql() or ctx.tx(), which is the step's own connection and transaction.";
    if (step.ends_with(".compensate")) text += " A compensation that was half done starts again from its beginning.";
    return text;
}

std::string made_elsewhere(std::string const& step, std::string const& difference, bool makes_calls)
{
    auto text = makes_calls ? "prepare() of " + step + " already made the call: it did this in another system"
                            : in_words(step) + " sent something to another system";
    text += " before its transaction was committed:\n" + difference +
            "A crash, a fault or a rejection does not take that back, and the next attempt ";
    if (makes_calls) return text + "does it again. Do it in call(), which begins after COMMIT.";
    return text +
           "sends it again. Send it with ctx.publish(), which sends after COMMIT; or give the other system ctx.key(), "
           "which is the same for every attempt, if it accepts each key once; or make it an external step, whose "
           "call() "
           "is outside of any transaction.";
}

}  // namespace

void observations::watch(simulation& w, std::vector<effect> const& effects)
{
    simulation_ = &w;
    effects_ = &effects;
    done_by_calls_.clear();
    w.rules.observer = this;
}

std::vector<section> observations::now() const
{
    return effects_of(*simulation_, *effects_);
}

void observations::before(std::string const&)
{
    before_ = now();
}

void observations::after(std::string const& step, step_context& ctx)
{
    if (is_aborted(ctx)) add_once(swallowed_, step);
    compare(step, now());
}

void observations::before_call()
{
    before_ = now();
}

void observations::after_call(std::string const& key)
{
    done_by_calls_[key] += difference(before_, now());
}

void observations::after_look(std::string const& step, std::string const& key, skald::detail::look_result::answer said)
{
    using answer = skald::detail::look_result::answer;
    if (auto const what = difference(before_, now()); !what.empty())
        add_once(wrong_looks_, "look() of " + step + " did something itself:\n" + what + look_only_asks);
    auto const done = done_by_calls_.find(key);
    if (said == answer::did_not_happen && done != done_by_calls_.end() && !done->second.empty())
        add_once(wrong_looks_, "look() of " + step + " said did_not_happen(), though a call had already done this:\n" +
                                   done->second + no_is_final);
    if (said == answer::happened && done == done_by_calls_.end())
        add_once(wrong_looks_, "look() of " + step + " said happened(), though no call had been made" + yes_is_sure);
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

std::string observations::outside_transaction() const
{
    auto const found = std::ranges::find(outside_, false, &seen_outside::elsewhere);
    return found == outside_.end() ? std::string{} : made_outside(found->step, found->difference);
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
    for (auto const& one : outside_) {
        if (!one.elsewhere) return made_outside(one.step, one.difference);
        return made_elsewhere(one.step, one.difference, simulation_->makes_calls(one.step));
    }
    if (!wrong_looks_.empty()) return wrong_looks_.front();
    return {};
}

}  // namespace skald::testing::inner
