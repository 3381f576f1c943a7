#include "acts.hpp"
#include "core/text.hpp"
#include "pages.hpp"
#include "saga_acts.hpp"
#include "words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace skald::console {
namespace {

constexpr std::size_t targets_max = 100;
constexpr std::size_t reason_bytes_max = 500;

// What a form or a link names.
struct wish
{
    verb what{};
    std::vector<target> targets;
};

// And what is wrong with it; empty: nothing.
std::pair<wish, std::string> read_wish(fields const& values)
{
    auto const named = values.find("verb");
    auto const what = named == values.end() ? std::nullopt : parse_verb(named->second);
    if (!what) return {{}, "It names no act that there is."};
    wish read{*what, {}};
    auto const [from, to] = values.equal_range(is_of_parked(*what) ? "parked" : "saga");
    for (auto it = from; it != to; ++it) {
        auto const one = parse_target(*what, it->second);
        if (!one) return {{}, "What it names is neither a saga nor a parked delivery."};
        read.targets.push_back(*one);
    }
    if (read.targets.empty()) return {{}, "Nothing was chosen: choose at least one, then what to do with it."};
    if (read.targets.size() > targets_max)
        return {{}, fmt::format("{} were chosen: choose at most {} at a time.", read.targets.size(), targets_max)};
    return {std::move(read), std::string{}};
}

std::string of_what(wish const& w)
{
    auto const count = static_cast<std::int64_t>(w.targets.size());
    return is_of_parked(w.what) ? counted(count, "parked delivery", "parked deliveries")
                                : counted(count, "saga", "sagas");
}

// What has to be typed: the thing itself or, of many, how many they are.
std::string proof_of(wish const& w)
{
    if (w.targets.size() != 1) return std::to_string(w.targets.size());
    return is_of_parked(w.what) ? std::to_string(w.targets[0].id) : w.targets[0].key;
}

std::string_view effect_of(verb what)
{
    switch (what) {
    case verb::cancel: return "Each is stopped before its next step and compensates: what its steps did is undone.";
    case verb::pause:
        return "Each begins no further step, in any service, until it is resumed. A step that runs now ends first.";
    case verb::resume: return "Each goes on from where it is.";
    case verb::retry:
        return "The parked step of each is put back, with attempts counted from scratch. The guard still lets it take "
               "effect once.";
    case verb::replay:
        return "Each goes back into its service's outbox under the same key, with attempts counted from scratch. The "
               "guard still lets it take effect once: if its step has run, nothing happens.";
    case verb::drop: return "Each is deleted for good. Its fingerprint stays in the audit, its body does not.";
    }
    return {};
}

std::string name_of(verb what, target const& of)
{
    return is_of_parked(what) ? fmt::format("delivery {} at {}", of.id, of.service) : of.key;
}

markup row_of(verb what, prospect const& one)
{
    markup line = element("code", name_of(what, one.of));
    if (is_of_parked(what) && !one.of.key.empty()) line += styled("span", "soft", one.about + " of " + one.of.key);
    if (!is_of_parked(what)) line += styled("span", "soft", one.about + " at " + one.of.service + ", " + one.state);
    if (!one.refused.empty()) line += styled("span", "no", markup{"can't be: "} + sentence(one.refused));
    else if (!one.asked_before.empty())
        line += styled("span", "undo",
                       "was asked for already, " + one.asked_before + ": it is sent again, and takes effect once");
    else if (what == verb::drop && one.is_waited_for)
        line += styled("span", "no", "its saga is stuck on it, and can never go on without it");
    return element("li", line);
}

markup form_of(context const& with, wish const& w, std::vector<prospect> const& ahead, std::string const& complaint)
{
    auto const name = console::name_of(w.what);
    markup inside = hidden("form_key", with.by.form_key) + hidden("verb", name);
    for (auto const& one : w.targets)
        inside += hidden(is_of_parked(w.what) ? "parked" : "saga", write_target(w.what, one));
    if (!complaint.empty()) inside += element("p", {{"class", "note no"}, {"role", "alert"}}, complaint);
    inside += reason_field(with, "Why? It is kept in the audit.") +
              confirm_field(w.targets.size() == 1 ? "Type " : "Type how many: ", proof_of(w));
    bool const is_needed =
        w.what == verb::drop && std::ranges::any_of(ahead, [](auto const& p) { return p.is_waited_for; });
    if (is_needed)
        inside += element("label", {{"class", "check"}},
                          lone("input", {{"type", "checkbox"}, {"name", "forced"}, {"value", "yes"}}) +
                              " Drop them although sagas are stuck on them: I will close these by hand.");
    inside += element("button", {{"class", w.what == verb::drop || w.what == verb::cancel ? "strong no" : "strong"}},
                      fmt::format("{} {}", static_cast<char>(name[0] - 'a' + 'A') + name.substr(1), of_what(w)));
    return element("form", {{"method", "post"}, {"action", "/act"}, {"class", "act"}}, inside);
}

std::string participle_of(std::string const& verb)
{
    return verb == "retry" ? "retried" : verb == "cancel" ? "cancelled" : verb + "d";
}

std::string may_not(context const& with, wish const& w)
{
    for (auto const& one : w.targets)
        if (!may_act(with, one.service)) return why_not_act(with, one.service);
    return {};
}

response preview(context const& with, wish const& w, std::string const& complaint, int status)
{
    auto const ahead = look_ahead(with.all, w.what, w.targets);
    auto const possible = std::ranges::count_if(ahead, [](auto const& p) { return p.refused.empty(); });
    auto const name = console::name_of(w.what);
    markup rows;
    for (auto const& one : ahead) rows += row_of(w.what, one);
    auto const title = fmt::format("{} {}", static_cast<char>(name[0] - 'a' + 'A') + name.substr(1), of_what(w));
    markup body = element("h1", title + "?") + styled("p", "sentence", effect_of(w.what)) +
                  element("ul", {{"class", "targets"}}, rows);
    if (possible == 0) body += styled("p", "note no", "Nothing would be done.");
    else if (static_cast<std::size_t>(possible) < ahead.size())
        body += styled("p", "note", fmt::format("It would be done to {} of {}.", possible, ahead.size()));
    if (possible > 0) body += form_of(with, w, ahead, complaint);
    return page(with, title, is_of_parked(w.what) ? "Parked" : "Sagas", styled("div", "narrow", body), status);
}

response refused(context const& with, std::string const& title, std::string const& why, int status)
{
    return page(
        with, title, "",
        styled("div", "narrow", element("h1", title) + element("p", {{"class", "note no"}, {"role", "alert"}}, why)),
        status);
}

response preview_of(context const& with, fields const& named)
{
    auto const& [wanted, flaw] = read_wish(named);
    if (!flaw.empty()) return refused(with, "No such act", flaw, 400);
    if (auto const why = may_not(with, wanted); !why.empty()) return refused(with, "Not allowed", why, 403);
    return preview(with, wanted, {}, 200);
}

markup result_of(verb what, result const& one)
{
    auto name = element("code", name_of(what, one.of));
    if (!is_of_parked(what)) name = element("a", {{"href", saga_link(one.of.service, one.of.scope, one.of.key)}}, name);
    auto const tone = one.is == result::outcome::done ? "ok" : one.is == result::outcome::in_doubt ? "undo" : "no";
    return element("li", name + styled("span", tone, sentence(one.said)));
}

response report(context const& with, verb what, std::vector<result> const& results)
{
    using outcome = result::outcome;
    markup rows;
    for (auto const& one : results) rows += result_of(what, one);
    auto const count = [&](outcome wanted) {
        return std::ranges::count_if(results, [&](auto const& r) { return r.is == wanted; });
    };
    auto const done = count(outcome::done), in_doubt = count(outcome::in_doubt), not_tried = count(outcome::not_tried);
    auto const title = fmt::format("{}: {} of {} done", console::name_of(what), done, results.size());
    markup body = element("h1", title) + element("ul", {{"class", "targets"}}, rows);
    if (not_tried > 0) body += styled("p", "note", fmt::format("{} not tried.", not_tried));
    auto const to_audit = [](std::string_view words) {
        return element("p", element("a", {{"href", "/audit"}}, words));
    };
    if (in_doubt > 0)
        body += styled("p", "note no", fmt::format("{} may have been done.", in_doubt)) +
                to_audit("The audit says what was done.");
    else if (done > 0) body += to_audit("It stands in the audit.");
    return page(with, title, is_of_parked(what) ? "Parked" : "Sagas", styled("div", "narrow", body));
}

}  // namespace

std::string flaw_of_reason(std::string const& reason)
{
    if (reason.find_first_not_of(" \t") == std::string::npos || reason.size() > reason_bytes_max)
        return fmt::format("Give a reason, of at most {} bytes.", reason_bytes_max);
    if (core::visible_text(reason) != reason) return "Give a reason in one line, without control characters.";
    return {};
}

markup reason_field(context const& with, std::string_view words)
{
    return field(words, {{"name", "reason"},
                         {"maxlength", static_cast<int>(reason_bytes_max)},
                         {"autocomplete", "off"},
                         {"value", with.asked.filled_in("reason")},
                         attribute::flag("required")});
}

markup confirm_field(std::string_view words, std::string const& proof)
{
    return element("label",
                   styled("span", "label", markup{words} + element("code", proof) + " to confirm.") +
                       lone("input", {{"name", "confirm"}, {"autocomplete", "off"}, attribute::flag("required")}));
}

response act_page(context const& with)
{
    return preview_of(with, with.asked.query);
}

response act_on_chosen(context const& with)
{
    return preview_of(with, with.asked.form);
}

response act(context const& with)
{
    auto const& [wanted, flaw] = read_wish(with.asked.form);
    if (!flaw.empty()) return refused(with, "No such act", flaw, 400);
    if (auto const why = may_not(with, wanted); !why.empty()) return refused(with, "Not allowed", why, 403);
    auto const reason = with.asked.filled_in("reason");
    if (auto const why = flaw_of_reason(reason); !why.empty()) return preview(with, wanted, why, 422);
    if (with.asked.filled_in("confirm") != proof_of(wanted))
        return preview(with, wanted, fmt::format("Type exactly “{}” to confirm.", proof_of(wanted)), 422);
    return report(with, wanted.what,
                  carry_out(with.all, {wanted.what, reason, with.by.name, with.asked.filled_in("forced") == "yes"},
                            wanted.targets));
}

markup saga_acts(context const& with, saga_story const& story)
{
    auto const& facts = story.facts;
    if (facts.finished_at) return {};
    if (!may_act(with, story.home)) return styled("p", "soft", why_not_act(with, story.home));
    bool const is_paused = facts.command && facts.command->action == "pause";
    auto const target_text = write_target(verb::cancel, {story.home, facts.id.scope, facts.id.key, 0});
    struct offer
    {
        std::string name, why_not;  // why_not empty: it is possible
    };
    std::string const no_cancel = facts.past_pivot ? "it is past the pivot" : "it compensates already";
    std::vector<offer> const offers{{"retry", facts.status == core::saga_state::stuck ? "" : "no step of it is parked"},
                                    {is_paused ? "resume" : "pause", ""},
                                    {"cancel", facts.can_be_cancelled ? "" : no_cancel}};
    markup buttons, reasons;
    for (auto const& [name, why_not] : offers) {
        if (why_not.empty()) {
            buttons +=
                element("a", {{"class", "button"}, {"href", link("/act", {{"verb", name}, {"saga", target_text}})}},
                        name + "…");
            continue;
        }
        buttons += styled("span", "button off", name);
        reasons += styled("p", "soft", fmt::format("It can't be {}: {}.", participle_of(name), why_not));
    }
    return element("div", {{"class", "acts"}, {"role", "group"}, {"aria-label", "Acts"}}, buttons) + reasons;
}

}  // namespace skald::console
