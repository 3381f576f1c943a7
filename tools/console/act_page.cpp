#include "acts.hpp"
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

std::optional<wish> read_wish(std::multimap<std::string, std::string> const& values)
{
    auto const named = values.find("verb");
    auto const what = named == values.end() ? std::nullopt : parse_verb(named->second);
    if (!what) return std::nullopt;
    wish read{*what, {}};
    auto const [from, to] = values.equal_range(is_of_parked(*what) ? "parked" : "saga");
    for (auto it = from; it != to; ++it) {
        auto const one = parse_target(*what, it->second);
        if (!one) return std::nullopt;
        read.targets.push_back(*one);
    }
    if (read.targets.size() > targets_max) return std::nullopt;
    return read;
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
    inside += field("Why? It is kept in the audit.", {{"name", "reason"},
                                                      {"maxlength", static_cast<int>(reason_bytes_max)},
                                                      {"autocomplete", "off"},
                                                      {"value", with.asked.filled_in("reason")},
                                                      attribute::flag("required")});
    inside += element("label",
                      styled("span", "label",
                             markup{w.targets.size() == 1 ? "Type " : "Type how many: "} +
                                 element("code", proof_of(w)) + " to confirm.") +
                          lone("input", {{"name", "confirm"}, {"autocomplete", "off"}, attribute::flag("required")}));
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

}  // namespace

response act_page(context const& with)
{
    auto const wanted = read_wish(with.asked.query);
    if (!wanted) return refused(with, "No such act", "The link names no act, or what it names can't be read.", 400);
    if (wanted->targets.empty())
        return refused(with, "Nothing chosen", "Choose at least one, then what to do with it.", 400);
    if (auto const why = may_not(with, *wanted); !why.empty()) return refused(with, "Not allowed", why, 403);
    return preview(with, *wanted, {}, 200);
}

response act(context const& with)
{
    auto const wanted = read_wish(with.asked.form);
    if (!wanted || wanted->targets.empty())
        return refused(with, "No such act", "The form names no act, or what it names can't be read.", 400);
    if (auto const why = may_not(with, *wanted); !why.empty()) return refused(with, "Not allowed", why, 403);
    auto const reason = with.asked.filled_in("reason");
    if (reason.find_first_not_of(" \t") == std::string::npos || reason.size() > reason_bytes_max)
        return preview(with, *wanted, fmt::format("Give a reason, of at most {} bytes.", reason_bytes_max), 422);
    if (with.asked.filled_in("confirm") != proof_of(*wanted))
        return preview(with, *wanted, fmt::format("Type exactly “{}” to confirm.", proof_of(*wanted)), 422);
    auto const results = carry_out(
        with.all, {wanted->what, reason, with.by.name, with.asked.filled_in("forced") == "yes"}, wanted->targets);
    markup rows;
    for (auto const& one : results) {
        auto name = element("code", name_of(wanted->what, one.of));
        if (!is_of_parked(wanted->what))
            name = element("a", {{"href", saga_link(one.of.service, one.of.scope, one.of.key)}}, name);
        rows += element("li", name + styled("span", one.is_done ? "ok" : "no", sentence(one.said)));
    }
    auto const done = std::ranges::count_if(results, [](auto const& r) { return r.is_done; });
    auto const title = fmt::format("{}: {} of {} done", console::name_of(wanted->what), done, results.size());
    return page(with, title, is_of_parked(wanted->what) ? "Parked" : "Sagas",
                styled("div", "narrow",
                       element("h1", title) + element("ul", {{"class", "targets"}}, rows) +
                           element("p", element("a", {{"href", "/audit"}}, "It stands in the audit."))));
}

markup saga_acts(context const& with, saga_story const& story)
{
    auto const& facts = story.facts;
    if (facts.finished_at) return {};
    if (!may_act(with, story.home)) return styled("p", "soft", why_not_act(with, story.home));
    bool const is_paused = facts.command && facts.command->action == "pause";
    auto const target_text = write_target(verb::cancel, {story.home, facts.id.scope, facts.id.key, 0});
    auto const button = [&](std::string const& name, bool is_possible, std::string const& why_not) {
        if (is_possible)
            return element("a", {{"class", "button"}, {"href", link("/act", {{"verb", name}, {"saga", target_text}})}},
                           name + "…");
        return element("span", {{"class", "button off"}, {"title", why_not}}, name);
    };
    bool const is_stuck = facts.status == core::saga_state::stuck;
    return element("div", {{"class", "acts"}, {"role", "group"}, {"aria-label", "Acts"}},
                   button("retry", is_stuck, "no step of it is parked") +
                       (is_paused ? button("resume", true, "") : button("pause", true, "")) +
                       button("cancel", facts.can_be_cancelled,
                              facts.past_pivot ? "it is past the pivot" : "it compensates already"));
}

}  // namespace skald::console
