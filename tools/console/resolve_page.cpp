// What has become of a call that is in doubt, as an operator says it for the other side: the same as `skald saga
// resolve`, in the database of the step's service.
#include "admin/started_steps.hpp"
#include "pages.hpp"
#include "saga_acts.hpp"
#include "words.hpp"

#include <skald/detail/data.hpp>
#include <skald/errors.hpp>

#include <fmt/format.h>
#include <pqxx/pqxx>

#include <thread>

namespace skald::console {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

// For what the process that records a result says of its type; a page is not to wait for longer.
constexpr auto verdict_within = 2s;
constexpr auto asked_every = 100ms;

/// The call that a link or a form names.
struct named_call
{
    std::string service;
    core::saga_id saga;
    std::string step;

    std::string name() const { return fmt::format("{} of saga {}", step, saga.key); }
};

named_call read_call(fields const& values)
{
    auto const value = [&](char const* name) {
        auto const it = values.find(name);
        return it == values.end() ? std::string{} : it->second;
    };
    return {value("service"), {value("scope"), value("key")}, value("step")};
}

response said(context const& with, std::string const& title, markup const& body, int status)
{
    return page(with, title, "Sagas", styled("div", "narrow", element("h1", title) + body), status);
}

response refused(context const& with, std::string const& why, int status)
{
    return said(with, "Nothing was said", element("p", {{"class", "note no"}, {"role", "alert"}}, sentence(why)),
                status);
}

/// Why nothing can be said of it; empty: something can.
std::string flaw_of(named_call const& call, json const& s)
{
    if (s.is_null())
        return fmt::format("{} is not under way at {}: nothing of it is in doubt.", call.name(), call.service);
    if (s["kind"] != "call") return fmt::format("{} waits for a signal, and makes no call.", call.name());
    if (s["is_answered"] && s["tries"] == 0) return fmt::format("{} has an answer already.", call.name());
    if (!s["in_doubt"]) return fmt::format("Nothing of {} is in doubt.", call.name());
    return {};
}

markup facts_of(json const& s)
{
    auto const entry = [](std::string_view name, markup const& value) {
        return element("div", element("dt", name) + element("dd", value));
    };
    auto const error = s["error"].get<std::string>(), dependency = s["dependency"].get<std::string>();
    return element("dl", {{"class", "about"}},
                   entry("calls", s["calls"].get<int>()) + entry("asked without an answer", s["looks"].get<int>()) +
                       entry("begun", shown_time(s["since"].get<std::string>())) +
                       (dependency.empty() ? markup{} : entry("of", dependency)) +
                       (error.empty() ? markup{} : entry("latest error", error)));
}

markup choice(context const& with, char const* value, markup const& words)
{
    return element("label", {{"class", "check"}},
                   lone("input", {{"type", "radio"},
                                  {"name", "what"},
                                  {"value", value},
                                  attribute::flag("required"),
                                  attribute::flag("checked", with.asked.filled_in("what") == value)}) +
                       element("span", words));
}

markup form_of(context const& with, named_call const& call, std::string const& complaint)
{
    markup inside = hidden("form_key", with.by.form_key) + hidden("service", call.service) +
                    hidden("scope", call.saga.scope) + hidden("key", call.saga.key) + hidden("step", call.step);
    if (!complaint.empty()) inside += element("p", {{"class", "note no"}, {"role", "alert"}}, complaint);
    inside += choice(with, "happened", "It happened, and the other side answered:");
    inside += element("label", styled("span", "label", "The answer, in JSON, as the step's result has it") +
                                   element("textarea", {{"name", "result"}, {"rows", 4}, {"spellcheck", "false"}},
                                           with.asked.filled_in("result")));
    inside += choice(with, "did-not-happen", "It did not happen, and never will");
    inside += reason_field(with, "How do you know? It is kept in the audit.") + confirm_field("Type ", call.saga.key) +
              element("button", {{"class", "strong no"}}, "Say so");
    return element("form", {{"method", "post"}, {"action", "/resolve"}, {"class", "act"}}, inside);
}

response ask(context const& with, named_call const& call, std::string const& complaint, int status)
{
    auto const s = with.all.find(call.service)->ask([&](postgres::connection& c) {
        return admin::find_started(c, call.saga, call.step);
    });
    if (auto const flaw = flaw_of(call, s); !flaw.empty()) return refused(with, flaw, s.is_null() ? 404 : 409);
    markup body =
        styled("p", "sentence",
               element("code", call.saga.key) + fmt::format(": {} at {} waits for ", call.step, call.service) +
                   s["waits_for"].get<std::string>() + ".") +
        facts_of(s) +
        styled("p", "note",
               "Say only what the other side says, on its statement or its list. What did not happen is done "
               "again, and what happened is not: a wrong answer charges twice, or never.");
    if (auto const owner = s["owner"].get<std::string>(); !owner.empty())
        body += styled("p", "note", owner + " has it now: that it did not happen can be said when that has ended.");
    return said(with, "What has the call done?", body + form_of(with, call, complaint), status);
}

/// What is wrong with what was filled in; empty: nothing. `result`: null if it did not happen.
std::string flaw_of_form(context const& with, named_call const& call, std::optional<json>& result)
{
    auto const what = with.asked.filled_in("what"), text = with.asked.filled_in("result");
    if (what != "happened" && what != "did-not-happen") return "Say whether it happened.";
    bool const happened = what == "happened";
    if (happened == (text.find_first_not_of(" \t\r\n") == std::string::npos))
        return happened ? "Say what the other side answered: the step records it."
                        : "What did not happen has no answer.";
    try {
        if (happened) result = detail::parse_checked(text);
    }
    catch (data_error const& error) {
        return fmt::format("The answer is JSON: {}", error.what());
    }
    if (auto why = flaw_of_reason(with.asked.filled_in("reason")); !why.empty()) return why;
    if (with.asked.filled_in("confirm") != call.saga.key)
        return fmt::format("Type exactly “{}” to confirm.", call.saga.key);
    return {};
}

struct said_it
{
    std::optional<std::string> refusal;
    json then;  // the row as it was when it got the answer
};

said_it say(database& db, admin::resolution const& what)
{
    return db.ask([&](postgres::connection& c) {
        said_it made;
        c.run("BEGIN");
        try {
            made.refusal = admin::resolve(c, what);
            made.then = admin::find_started(c, what.saga, what.step);
            c.run(made.refusal ? "ROLLBACK" : "COMMIT");
        }
        catch (...) {
            if (c.is_open()) c.run("ROLLBACK");
            throw;
        }
        return made;
    });
}

/// What its service says of the result, if it says so soon: only that knows the step's type.
json await_verdict(database& db, admin::resolution const& what, json const& then)
{
    for (auto const until = std::chrono::steady_clock::now() + verdict_within;;) {
        auto const verdict = db.ask([&](postgres::connection& c) { return admin::verdict_on(c, what, then); });
        if (!verdict.is_null() || std::chrono::steady_clock::now() >= until) return verdict;
        std::this_thread::sleep_for(asked_every);
    }
}

response carry_out(context const& with, named_call const& call, admin::resolution const& what)
{
    auto const made = say(*with.all.operating(call.service), what);
    if (made.refusal) return refused(with, *made.refusal, 409);
    auto const back =
        element("p", element("a", {{"href", link("/saga", {{"scope", call.saga.scope}, {"key", call.saga.key}})}},
                             "To the saga"));
    auto const verdict = what.result ? await_verdict(*with.all.find(call.service), what, made.then) : json{};
    if (!verdict.is_null() && !verdict["is_recorded"])
        return said(with, "It could not be recorded",
                    styled("p", "note no", verdict["error"].get<std::string>()) +
                        element("p", "If the answer is wrong, say it again.") + back,
                    422);
    return said(with, what.result ? "It happened" : "It did not happen",
                styled("p", "sentence",
                       fmt::format("{} {} it. It stands in the audit.", call.service,
                                   verdict.is_null() ? "goes on with" : "has recorded")) +
                    back,
                200);
}

/// Calls `what` for a call that is named in full and may be spoken for.
template <class What>
response for_call(context const& with, named_call const& call, What const& what)
try {
    if (call.saga.key.empty() || call.step.empty()) return refused(with, "The address names no step of a saga.", 400);
    if (with.all.find(call.service) == nullptr)
        return refused(with, "This console was not given the address of " + call.service + ".", 404);
    if (!may_act(with, call.service)) return refused(with, why_not_act(with, call.service), 403);
    return what();
}
catch (away const& why) {
    return said(with, why.kind == away::how::lost ? "It may have been said" : "Nothing was said",
                missing_note({why}, why.kind == away::how::lost ? "The audit says whether it was."
                                                                : "Say it when it answers again."),
                503);
}

}  // namespace

response resolve_page(context const& with)
{
    auto const call = read_call(with.asked.query);
    return for_call(with, call, [&] { return ask(with, call, {}, 200); });
}

response resolve(context const& with)
{
    auto const call = read_call(with.asked.form);
    return for_call(with, call, [&] {
        std::optional<json> result;
        if (auto const flaw = flaw_of_form(with, call, result); !flaw.empty()) return ask(with, call, flaw, 422);
        return carry_out(with, call, {call.saga, call.step, result, with.asked.filled_in("reason"), with.by.name});
    });
}

std::string resolve_link(std::string const& service, core::saga_id const& saga, std::string const& step)
{
    return link("/resolve", {{"service", service}, {"scope", saga.scope}, {"key", saga.key}, {"step", step}});
}

}  // namespace skald::console
