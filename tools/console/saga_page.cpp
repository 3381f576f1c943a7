#include "audit_log.hpp"
#include "core/reasons.hpp"
#include "pages.hpp"
#include "picture.hpp"
#include "saga_acts.hpp"
#include "saga_story.hpp"
#include "words.hpp"

#include <fmt/format.h>

namespace skald::console {
namespace {

using state = run::state;

std::string status_of(saga_story const& story)
{
    return std::string{core::name_of(story.facts.status)};
}

bool is_paused(saga_story const& story)
{
    return story.facts.command && story.facts.command->action == "pause" && !story.facts.finished_at;
}

std::string capitalized(std::string said)
{
    if (!said.empty() && said[0] >= 'a' && said[0] <= 'z') said[0] = static_cast<char>(said[0] - 'a' + 'A');
    return said;
}

// Each leads to the sagas that have it too.
markup found_by(saga_story const& story)
{
    markup all;
    for (auto const& [name, value] : story.attributes.items()) {
        auto const condition = name + '=' + value.get<std::string>();
        all += element("a", {{"href", link("/", {{"home", story.home}, {"where", condition}})}}, condition);
    }
    return all.empty() ? markup{} : styled("p", "facts attributes", all);
}

markup heading(saga_story const& story)
{
    auto const& facts = story.facts;
    markup pills = pill(status_of(story), tone_of_status(status_of(story)));
    if (is_paused(story)) pills += pill("paused", "undo");
    auto about = fmt::format("{} v{} · started {} at {}", facts.definition, story.version, shown_time(facts.created_at),
                             story.home);
    about += facts.finished_at ? " · ended after " + duration(*facts.finished_at - facts.created_at)
                               : " · " + duration(facts.now - facts.created_at) + " old";
    if (!facts.id.scope.empty()) about += " · scope " + facts.id.scope;
    return element("h1", element("code", facts.id.key) + pills) +
           styled("p", "sentence", sentence(capitalized(story.sentence))) + styled("p", "facts", about) +
           found_by(story);
}

markup row_of(context const& with, saga_story const& story, station const& at, run const& of, bool is_compensation)
{
    auto const start = story.facts.created_at;
    markup what = styled("b", tone(of, is_compensation), in_short(of, start, is_compensation));
    if (!of.error.empty() && of.error != core::nothing_to_undo && of.error != "snoozed" && of.error != "put back")
        what += styled("span", "error", of.error);
    if (auto const where = whereabouts(of, at.service, story.facts.now); !where.empty()) {
        what += styled("span", "where", where);
        if (of.message && of.message->where == message_place::kind::parked)
            what += element("a",
                            {{"href", link("/parked/one", {{"service", of.message->service},
                                                           {"id", std::to_string(of.message->parked_id)}})}},
                            "Look at it");
    }
    if (of.is_in_doubt && may_act(with, at.service)) {
        auto const name = at.step + (is_compensation ? std::string{core::compensate_suffix} : "");
        what += element("a", {{"href", resolve_link(at.service, story.facts.id, name)}}, "Say what it has done");
    }
    bool const is_told = of.at && !of.is_first_hand;
    if (is_told) what += styled("span", "soft", "as " + story.home + " was told");
    auto const tried = of.first_at && of.at ? *of.at - *of.first_at : std::chrono::microseconds{0};
    bool const took_tries = tried > std::chrono::milliseconds{2} && of.attempts + of.snoozes > 1;
    return element(
        "li", {{"class", tone(of, is_compensation) + (is_compensation ? " back" : "")}},
        styled("span", "step",
               element("b", at.step) +
                   styled("span", "soft", (is_compensation ? "compensation at " : "at ") + at.service)) +
            styled("span", "what", what) + styled("span", "count", deliveries(of, is_compensation)) +
            styled("span", "when",
                   markup{of.at ? shown_time(*of.at) : ""} +
                       (took_tries ? styled("span", "soft", "after " + duration(tried) + " of tries") : markup{})));
}

// The picture in words: on a narrow screen, it is the picture.
markup steps(context const& with, saga_story const& story)
{
    markup rows;
    markup never;
    for (auto const& one : story.stations)
        (one.forward.is == state::never ? never : rows) += row_of(with, story, one, one.forward, false);
    for (auto one = story.stations.rbegin(); one != story.stations.rend(); ++one)
        if (one->back) rows += row_of(with, story, *one, *one->back, true);
    rows += never;
    return element("ol", {{"class", "steps"}, {"aria-label", "Steps"}}, rows);
}

markup away_notes(saga_story const& story)
{
    std::vector<away> missing;
    for (auto const& lane : story.lanes)
        if (lane.is_given && !lane.why_away.empty()) missing.emplace_back(lane.service, lane.why_away, lane.kind);
    return missing_note(missing, "Its lane shows what " + story.home + " was told.");
}

markup started_with(saga_story const& story)
{
    return element("pre", {{"tabindex", "0"}}, story.data ? story.data->dump(2) : story.text);
}

markup changes_of(saga_story const& story, station const& at, run const& of)
{
    if (of.message && !of.message->kept.empty())
        return element("p", "The message for " + at.step + " carries a reference in its place:") +
               element("pre", {{"tabindex", "0"}}, of.message->kept);
    if (!of.message || !of.message->data || !story.data) return {};
    markup rows;
    for (auto const& [path, values] : changes(*story.data, *of.message->data))
        rows += element("li", element("code", path) + styled("del", "", values.first) + raw(" ") +
                                  styled("ins", "", values.second));
    return element("p", "The message for " + at.step + " carries it with these changes:") +
           (rows.empty() ? styled("p", "soft", "none") : element("ul", {{"class", "changes"}}, rows));
}

markup data(saga_story const& story)
{
    markup changed;
    for (auto const& one : story.stations) {
        changed += changes_of(story, one, one.forward);
        if (one.back) changed += changes_of(story, one, *one.back);
    }
    if (changed.empty())
        changed = styled("p", "soft",
                         "What steps change travels in their messages. None of them is in an outbox or parked now, so "
                         "it can't be shown.");
    return element("details", {{"class", "card"}},
                   element("summary", "Data") +
                       styled("div", "data",
                              element("section", element("h2", "As it started") + started_with(story)) +
                                  element("section", element("h2", "What steps changed") + changed)));
}

markup history(saga_story const& story)
{
    if (story.audit.empty()) return {};
    markup rows;
    for (auto const& row : story.audit) {
        auto const why = reason_of(row);
        rows += element("li", styled("span", "when", shown_time(row.at)) + element("b", row.verb) +
                                  markup{" by " + row.actor + " at " + row.service} +
                                  (why.empty() ? markup{} : styled("q", "", why)));
    }
    return element("details", {{"class", "card"}, attribute::flag("open")},
                   element("summary", "What operators did") + element("ul", {{"class", "history"}}, rows));
}

response choose_home(context const& with, core::saga_id const& id, std::vector<std::string> const& homes)
{
    markup links;
    for (auto const& home : homes)
        links += element("li", element("a", {{"href", saga_link(home, id.scope, id.key)}}, id.key + " at " + home));
    return page(with, id.key, "Sagas",
                element("h1", element("code", id.key)) +
                    element("p", "Several services have started a saga of this key:") + element("ul", links));
}

response not_found(context const& with, core::saga_id const& id, std::vector<away> const& missing)
{
    auto const where = std::string{id.scope.empty() ? "" : " in scope " + id.scope};
    auto const said = missing.empty() ? "No such saga was started at the services that this console was given" + where +
                                            ", or it is past its retention."
                                      : "No service that answers has started such a saga" + where + ".";
    return page(
        with, id.key, "Sagas",
        element("h1", element("code", id.key)) + missing_note(missing, "It may have been started there.") +
            element("p", said) +
            element("p", element("a", {{"href", link("/", {{"key", id.key}})}}, "Search for keys that begin so")),
        missing.empty() ? 404 : 503);
}

}  // namespace

response saga_page(context const& with)
{
    core::saga_id const id{with.asked.asked("scope"), with.asked.asked("key")};
    auto home = with.asked.asked("home");
    if (home.empty()) {
        std::vector<away> missing;
        auto const homes = homes_of(with.all, id, missing);
        if (homes.size() > 1) return choose_home(with, id, homes);
        if (homes.empty()) return not_found(with, id, missing);
        home = homes.front();
    }
    try {
        auto const story = tell_saga(with.all, home, id);
        if (!story) return not_found(with, id, {});
        return page(with, id.key + " · " + status_of(*story), "Sagas",
                    element("div", {{"id", "live"}},
                            heading(*story) + away_notes(*story) +
                                element("div",
                                        {{"class", "picture"},
                                         {"tabindex", "0"},
                                         {"role", "region"},
                                         {"aria-label", "The saga as a picture"}},
                                        draw(*story)) +
                                steps(with, *story)) +
                        saga_acts(with, *story) + data(*story) + history(*story));
    }
    catch (away const& why) {
        return page(with, id.key, "Sagas",
                    element("h1", element("code", id.key)) +
                        missing_note({why}, "Only a saga's home knows the whole of it."),
                    503);
    }
}

}  // namespace skald::console
