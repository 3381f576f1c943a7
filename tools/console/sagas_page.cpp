#include "admin/explanation.hpp"
#include "core/text.hpp"
#include "pages.hpp"
#include "saga_search.hpp"
#include "words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace skald::console {
namespace {

using nlohmann::json;

// "90s", "15m", "2h", "7d", as `skald saga list --older-than` takes it.
std::optional<std::chrono::seconds> read_age(std::string const& text)
{
    if (text.empty()) return std::nullopt;
    std::int64_t count{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    std::string const unit{end, text.data() + text.size()};
    std::int64_t const seconds = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3'600 : unit == "d" ? 86'400 : 0;
    if (error != std::errc{} || seconds == 0 || count < 0 || count > 1'000'000)
        throw std::invalid_argument{"an age is a number with its unit: 90s, 15m, 2h, 7d"};
    return std::chrono::seconds{count * seconds};
}

// What each `where` of the query says: `customer=bob`.
std::vector<std::string> conditions_of(request const& asked)
{
    std::vector<std::string> all;
    auto const [first, last] = asked.query.equal_range("where");
    for (auto it = first; it != last; ++it)
        if (!it->second.empty()) all.push_back(it->second);
    return all;
}

// What the query may give, beside `where` and `after`.
constexpr std::array<std::string_view, 7> filter_names{"home", "status", "definition", "scope",
                                                       "key",  "reason", "older"};

// A filter that was ignored for its name would show all sagas.
void check_names(fields const& query)
{
    for (auto const& [name, value] : query)
        if (name != "where" && name != "after" && std::ranges::find(filter_names, name) == filter_names.end())
            throw std::invalid_argument{fmt::format("there is no filter “{}”: there are {}, where and after",
                                                    core::visible_text(name), fmt::join(filter_names, ", "))};
}

saga_filter filter_of(request const& asked)
{
    check_names(asked.query);
    saga_filter wanted{
        asked.asked("home"), asked.asked("status"), asked.asked("definition"),      asked.asked("scope"),
        asked.asked("key"),  asked.asked("reason"), read_age(asked.asked("older")), asked.asked("after")};
    wanted.where = admin::read_conditions(conditions_of(asked));
    return wanted;
}

// The same list with something changed: its first page, unless `after` is given.
std::string list_link(request const& asked, std::string const& name, std::string const& value)
{
    std::vector<std::pair<std::string, std::string>> query;
    query.reserve(filter_names.size() + 1);
    for (auto const one : filter_names) query.emplace_back(one, one == name ? value : asked.asked(std::string{one}));
    for (auto const& one : conditions_of(asked)) query.emplace_back("where", one);
    if (name == "after") query.emplace_back("after", value);
    return link("/", query);
}

markup tile(context const& with, std::string const& status, std::string const& count, std::string_view words)
{
    attributes attributes_of_it{
        {"href", list_link(with.asked, "status", with.asked.asked("status") == status ? "" : status)},
        {"class", "tile " + (count == "0" ? "wait" : tone_of_status(status)) + (count.empty() ? " plain" : "")}};
    if (with.asked.asked("status") == status) attributes_of_it.emplace_back("aria-current", "true");
    return element("a", attributes_of_it, styled("span", "figure", count) + styled("span", "label", words));
}

markup tiles(context const& with)
{
    auto const counts = count_sagas(with.all);
    auto const shown = [&](std::int64_t count) { return number(count) + (counts.is_more ? "+" : ""); };
    return styled(
        "div", "tiles",
        tile(with, "stuck", number(counts.stuck), "stuck") + tile(with, "unknown", number(counts.unknown), "unknown") +
            tile(with, "compensating", shown(counts.compensating), "compensating") +
            tile(with, "running", shown(counts.running), "running") + tile(with, "compensated", "", "compensated") +
            tile(with, "completed", "", "completed") +
            styled("p", "soft about", counts.about > 0 ? "about " + number(counts.about) + " on record" : ""));
}

markup select_of_home(context const& with)
{
    markup options = element("option", {{"value", ""}}, "every service");
    for (auto const& db : with.all.all())
        options +=
            element("option",
                    {{"value", db->service()}, attribute::flag("selected", with.asked.asked("home") == db->service())},
                    db->service());
    return element("label", styled("span", "label", "started at") + element("select", {{"name", "home"}}, options));
}

// A field for each attribute that is asked for, and one for another.
markup attribute_fields(context const& with)
{
    markup all;
    auto given = conditions_of(with.asked);
    given.emplace_back();
    for (std::size_t i = 0; i < given.size(); ++i)
        all += field(i == 0 ? "attribute" : "and attribute",
                     {{"name", "where"}, {"placeholder", "customer=bob"}, {"value", given[i]}});
    return all;
}

markup filters(context const& with)
{
    auto const& asked = with.asked;
    auto const given = [&](char const* name) { return attribute{"value", asked.asked(name)}; };
    markup known;
    for (auto const& name : definitions(with.all)) known += element("option", {{"value", name}});
    bool const is_narrowed = !(asked.asked("definition") + asked.asked("scope") + asked.asked("reason") +
                               asked.asked("older") + asked.asked("home"))
                                  .empty() ||
                             !conditions_of(asked).empty();
    auto const more =
        styled("div", "fields",
               select_of_home(with) + attribute_fields(with) +
                   field("definition", {{"name", "definition"}, {"list", "definitions"}, given("definition")}) +
                   field("scope", {{"name", "scope"}, given("scope")}) +
                   field("reason contains", {{"name", "reason"}, given("reason")}) +
                   field("started longer ago than", {{"name", "older"}, {"placeholder", "15m"}, given("older")}) +
                   element("datalist", {{"id", "definitions"}}, known));
    return element(
        "form", {{"class", "filters"}, {"method", "get"}, {"action", "/"}, {"role", "search"}},
        styled("div", "search",
               field("key begins with", {{"name", "key"},
                                         {"type", "search"},
                                         {"placeholder", "order-"},
                                         {"autocomplete", "off"},
                                         given("key")}) +
                   element("button", "Search")) +
            (asked.asked("status").empty() ? markup{} : hidden("status", asked.asked("status"))) +
            element("details", {attribute::flag("open", is_narrowed)}, element("summary", "More filters") + more));
}

std::string when(saga_row const& row)
{
    auto const age = admin::in_words(std::chrono::seconds{row.age_seconds});
    return row.ended.empty() ? age + " old" : age + " ago";
}

markup row_of(context const& with, saga_row const& row, bool is_chosen_from)
{
    auto const tone = tone_of_status(row.status);
    auto facts = element("code", {{"class", "key"}}, row.key) + styled("span", "def", row.definition);
    if (!row.scope.empty()) facts += styled("span", "scope", "in " + row.scope);
    auto const found_by = row.attributes.empty() ? json::object() : json::parse(row.attributes);
    for (auto const& [name, value] : found_by.items())
        facts += styled("span", "scope", name + '=' + value.get<std::string>());
    auto line = styled("span", "state " + tone, row.status) + styled("span", "what", facts) +
                styled("span", "why", row.reason) +
                styled("span", "when",
                       markup{when(row)} +
                           (row.ended.empty()
                                ? markup{}
                                : styled("span", "soft", "in " + duration(std::chrono::milliseconds{row.took_ms}))));
    auto item = element("a", {{"href", saga_link(row.home, row.scope, row.key)}, {"class", "row"}}, line);
    if (is_chosen_from && may_act(with, row.home) && row.ended.empty())
        item = lone("input", {{"type", "checkbox"},
                              {"name", "saga"},
                              {"value", row.home + '\n' + row.scope + '\n' + row.key},
                              {"aria-label", "choose " + row.key}}) +
               item;
    return element("li", item);
}

bool may_act_on_any(context const& with, found_sagas const& page)
{
    return std::any_of(page.rows.begin(), page.rows.end(),
                       [&](auto const& row) { return row.ended.empty() && may_act(with, row.home); });
}

markup list(context const& with, found_sagas const& page)
{
    if (page.rows.empty() && page.next.empty())
        return styled("p", "empty",
                      page.missing.empty() ? "No saga matches. That is good news, if you looked for trouble."
                                           : "No saga matches in a database that answers.");
    bool const is_chosen_from = may_act_on_any(with, page);
    markup rows;
    for (auto const& row : page.rows) rows += row_of(with, row, is_chosen_from);
    auto const all = element("ol", {{"class", is_chosen_from ? "rows chosen-from" : "rows"}}, rows);
    if (!is_chosen_from) return all;
    markup verbs;
    for (auto const* verb : {"cancel", "pause", "resume", "retry"})
        verbs += element("button", {{"name", "verb"}, {"value", verb}}, std::string{verb} + "…");
    return element("form", {{"method", "post"}, {"action", "/act/preview"}},
                   hidden("form_key", with.by.form_key) + all +
                       styled("div", "acts", styled("span", "soft", "the chosen sagas:") + verbs));
}

markup pages(context const& with, found_sagas const& page)
{
    markup links;
    if (!with.asked.asked("after").empty())
        links += element("a", {{"href", list_link(with.asked, "", "")}, {"class", "button"}}, "To the start");
    if (!page.searched_to.empty())
        links += styled("p", "soft", "Searched as far as " + shown_time(page.searched_to) + ".");
    if (!page.next.empty())
        links +=
            element("a", {{"href", list_link(with.asked, "after", page.next)}, {"class", "button"}, {"rel", "next"}},
                    page.searched_to.empty() ? "More" : "Search further");
    return links.empty() ? markup{} : styled("div", "pages", links);
}

}  // namespace

response sagas_page(context const& with)
try {
    auto const found = find_sagas(with.all, filter_of(with.asked), rows_of_a_page);
    return page(with, "Sagas", "Sagas",
                styled("h1", "quiet", "Sagas") + tiles(with) + filters(with) +
                    missing_note(found.missing, "Sagas that were started there are missing from this list.") +
                    element("div", {{"id", "live"}}, list(with, found)) + pages(with, found));
}
catch (std::invalid_argument const& error) {
    return page(with, "Sagas", "Sagas",
                styled("h1", "quiet", "Sagas") + filters(with) + styled("p", "note no", error.what()), 400);
}

response sagas_as_json(context const& with)
try {
    auto const found = find_sagas(with.all, filter_of(with.asked), rows_of_a_page);
    auto const or_null = [](std::string const& text) { return text.empty() ? json(nullptr) : json(text); };
    json answer{{"sagas", json::array()},
                {"next", or_null(found.next)},
                {"searched_to", or_null(found.searched_to)},
                {"missing", json::array()}};
    for (auto const& row : found.rows) {
        answer["sagas"].push_back({{"home", row.home},
                                   {"scope", row.scope},
                                   {"key", row.key},
                                   {"definition", row.definition},
                                   {"status", row.status},
                                   {"reason", or_null(row.reason)},
                                   {"created_at", row.started},
                                   {"finished_at", or_null(row.ended)}});
        if (!row.attributes.empty()) answer["sagas"].back()["attributes"] = json::parse(row.attributes);
    }
    for (auto const& one : found.missing) answer["missing"].push_back(one.service);
    return {200, answer.dump(), "application/json", {}};
}
catch (std::invalid_argument const& error) {
    return refused_as_json(error.what());
}

response refused_as_json(std::string const& why)
{
    return {400, json{{"error", why}}.dump(), "application/json", {}};
}

}  // namespace skald::console
