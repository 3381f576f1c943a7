#include "audit_log.hpp"
#include "pages.hpp"
#include "words.hpp"

#include <stdexcept>

namespace skald::console {
namespace {

// Of an order for many sagas: how far it came.
std::string count_of(audit_row const& row)
{
    if (!row.verb.starts_with("sagas ") || !row.detail.is_object()) return {};
    auto const counted = [&](char const* name) { return number(row.detail.value(name, std::int64_t{})); };
    return counted("done") + " of " + counted("matching") + (row.detail.value("ended", false) ? "" : ", then stopped");
}

markup row_of(audit_row const& row)
{
    auto const& d = row.detail;
    auto const why = reason_of(row);
    auto const home = d.is_object() ? d.value("home", std::string{}) : std::string{};
    markup what = row.key.empty() ? markup{count_of(row)} : element("code", row.key);
    if (!row.key.empty()) what = element("a", {{"href", saga_link(home, row.scope, row.key)}}, what);
    auto more = d.is_object() ? d.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) : std::string{};
    return element("li",
                   styled("span", "when", shown_time(row.at)) +
                       styled("span", "what",
                              element("b", row.verb) + raw(" ") + what + styled("span", "soft", " at " + row.service)) +
                       styled("span", "who", row.actor) + (why.empty() ? markup{} : styled("q", "", why)) +
                       element("details", element("summary", "All of it") + element("pre", {{"tabindex", "0"}}, more)));
}

}  // namespace

response audit_page_of(context const& with)
try {
    auto const actor = with.asked.asked("actor");
    auto const found = audit_before(with.all, with.asked.asked("before"), actor, rows_of_a_page);
    markup rows;
    for (auto const& row : found.rows) rows += row_of(row);
    markup list = found.rows.empty()
                      ? styled("p", "empty",
                               !found.missing.empty() ? "Nothing that matches is in a database that answers."
                               : actor.empty()        ? "Nothing was done by hand."
                               : found.next.empty()   ? "Nothing that was done by hand matches the filter."
                                                      : "Nothing that was done by hand until then matches the filter.")
                      : element("ol", {{"class", "audit"}}, rows);
    if (found.is_partly_searched) list += styled("p", "soft", "Searched back to " + shown_time(found.next) + ".");
    if (!found.next.empty())
        list += styled(
            "div", "pages",
            element("a", {{"class", "button"}, {"href", link("/audit", {{"before", found.next}, {"actor", actor}})}},
                    "Earlier"));
    return page(
        with, "Audit", "Audit",
        element("h1", {{"class", "quiet"}}, "Audit") +
            styled("p", "soft",
                   "What was done by hand, here and with the command line: it is written in the same transaction.") +
            element("form", {{"class", "filters"}, {"method", "get"}, {"action", "/audit"}, {"role", "search"}},
                    styled("div", "search",
                           field("by whom", {{"name", "actor"}, {"type", "search"}, {"value", actor}}) +
                               element("button", "Search"))) +
            missing_note(found.missing, "What was done there is not shown.") + list);
}
catch (std::invalid_argument const& error) {
    return page(with, "Audit", "Audit",
                element("h1", {{"class", "quiet"}}, "Audit") + styled("p", "note no", error.what()), 400);
}

}  // namespace skald::console
