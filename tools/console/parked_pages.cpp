#include "acts.hpp"
#include "admin/parked_deliveries.hpp"
#include "pages.hpp"
#include "words.hpp"

#include <skald/detail/data.hpp>
#include <skald/errors.hpp>

#include <fmt/format.h>
#include <pqxx/pqxx>

#include <algorithm>
#include <array>
#include <charconv>

namespace skald::console {
namespace {

using nlohmann::json;

constexpr std::size_t laid_out_max = 65'536;  // bytes of a body

std::int64_t read_id(std::string const& text)
{
    std::int64_t id{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    return error == std::errc{} && end == text.data() + text.size() ? id : 0;
}

std::optional<std::string> given(request const& asked, char const* name)
{
    auto const value = asked.asked(name);
    return value.empty() ? std::nullopt : std::optional{value};
}

// A message of no saga has no step before its key was found.
std::string step_or_handler(json const& one)
{
    return one[one["handler"].get_ref<std::string const&>().empty() ? "step" : "handler"].get<std::string>();
}

markup row_of(context const& with, std::string const& service, json const& one)
{
    auto const id = one["id"].dump();
    markup facts = styled("span", "state no", one["reason"].get<std::string>()) +
                   styled("span", "what",
                          element("code", {{"class", "key"}}, one["key"].get<std::string>()) +
                              styled("span", "def", step_or_handler(one)) +
                              (one["scope"].get<std::string>().empty()
                                   ? markup{}
                                   : styled("span", "scope", "in " + one["scope"].get<std::string>()))) +
                   styled("span", "why", one["error"].get<std::string>()) +
                   styled("span", "when", shown_time(one["parked_at"].get<std::string>()));
    auto item =
        element("a", {{"class", "row"}, {"href", link("/parked/one", {{"service", service}, {"id", id}})}}, facts);
    if (may_act(with, service))
        item = lone("input", {{"type", "checkbox"},
                              {"name", "parked"},
                              {"value", service + '\n' + id},
                              {"aria-label", "choose delivery " + id}}) +
               item;
    return element("li", item);
}

// One service's part of the page.
markup of_service(context const& with, database& db, std::vector<away>& missing)
try {
    auto const& asked = with.asked;
    admin::parked_filter filter{given(asked, "reason"), given(asked, "scope"), given(asked, "key"),
                                given(asked, "step")};
    filter.limit = rows_of_a_page;
    if (asked.asked("service") == db.service()) filter.after = read_id(asked.asked("after"));
    auto const found = db.ask([&](postgres::connection& c) { return admin::list_parked(c, filter); });
    if (found["parked"].empty()) return {};
    markup rows;
    for (auto const& one : found["parked"]) rows += row_of(with, db.service(), one);
    bool const can_act = may_act(with, db.service());
    markup list = element("ol", {{"class", can_act ? "rows parked chosen-from" : "rows parked"}}, rows);
    if (can_act) {
        list = element("form", {{"method", "post"}, {"action", "/act/preview"}},
                       hidden("form_key", with.by.form_key) + list +
                           styled("div", "acts",
                                  styled("span", "soft", "the chosen deliveries:") +
                                      element("button", {{"name", "verb"}, {"value", "replay"}}, "replay…") +
                                      element("button", {{"name", "verb"}, {"value", "drop"}}, "drop…")));
    }
    if (!found["next"].is_null()) {
        list += styled("div", "pages",
                       element("a",
                               {{"class", "button"},
                                {"href", link("/parked", {{"service", db.service()},
                                                          {"reason", asked.asked("reason")},
                                                          {"scope", asked.asked("scope")},
                                                          {"key", asked.asked("key")},
                                                          {"step", asked.asked("step")},
                                                          {"after", found["next"].dump()}})}},
                               "More of " + db.service()));
    }
    return element("section", element("h2", db.service()) + list);
}
catch (away const& why) {
    missing.push_back(why);
    return {};
}

markup filters(request const& asked)
{
    auto const value = [&](char const* name) { return attribute{"value", asked.asked(name)}; };
    return element("form", {{"class", "filters"}, {"method", "get"}, {"action", "/parked"}, {"role", "search"}},
                   styled("div", "fields",
                          field("reason", {{"name", "reason"}, value("reason")}) +
                              field("key", {{"name", "key"}, value("key")}) +
                              field("scope", {{"name", "scope"}, value("scope")}) +
                              field("step", {{"name", "step"}, value("step")}) + element("button", "Search")));
}

bool is_narrowed(request const& asked)
{
    constexpr std::array<char const*, 5> names{"reason", "key", "scope", "step", "after"};
    return std::ranges::any_of(names, [&](auto const* name) { return !asked.asked(name).empty(); });
}

std::string_view meaning_of(std::string const& reason)
{
    if (reason == "attempts_exhausted") return "Its step failed as often as it may be tried.";
    if (reason == "malformed") return "Its headers or its body can't be read.";
    if (reason == "unknown_step") return "No step or handler of this name is in the service that got it.";
    if (reason == "mismatch") return "Its key was used before, with another body or by another home.";
    if (reason == "delivery_limit")
        return "It came back without an outcome as often as that may happen: perhaps it ends the process that runs it.";
    if (reason == "transaction_ended")
        return "The code of its step ended Skald's transaction itself, so that what it wrote is not guarded.";
    if (reason == "unprocessable") return "Skald's own writes for it were refused five times because of their content.";
    if (reason == "unknown_saga")
        return "The saga it belongs to was not started in this database, or is past its retention.";
    if (reason == "body_missing") return "Its body is kept apart from it, and is not there; its step did not run.";
    if (reason == "body_damaged") return "What is kept as its body has other bytes; its step did not run.";
    if (reason == "no_key") return "Its message handler found no key in it, and so never ran.";
    if (reason == "closed") return "Its saga had been closed by an operator when it came.";
    if (reason == "unsigned") return "It has no signature, and this service requires one.";
    if (reason == "forged") return "Its signature is not valid.";
    return "It could not be processed.";
}

// As JSON with a line for each value, if it is JSON that Skald accepts: what has no bound on its nesting overflows the
// stack, and its indentation grows with the square of it.
std::string laid_out(std::string const& text)
try {
    return text.size() > laid_out_max ? text : detail::parse_checked(text).dump(2);
}
catch (data_error const&) {
    return text;
}

markup body_of(json const& one)
{
    if (auto const kept = one.find("kept_body"); kept != one.end())
        return element("p", fmt::format("Kept apart from it: {} bytes, in {}, under their SHA-256",
                                        kept->at("bytes").dump(), kept->at("store").get<std::string>())) +
               element("pre", {{"tabindex", "0"}}, kept->at("sha256").get<std::string>());
    if (one.contains("body_hex")) return element("pre", {{"tabindex", "0"}}, one["body_hex"].get<std::string>());
    return element("pre", {{"tabindex", "0"}}, laid_out(one["body"].get<std::string>()));
}

markup headers_of(json const& headers)
{
    markup rows;
    for (auto const& [name, value] : headers.items())
        rows += element("div", element("dt", name) +
                                   element("dd", value.is_string() ? value.get<std::string>() : value.dump()));
    return element("dl", {{"class", "headers"}}, rows);
}

markup acts_of(context const& with, std::string const& service, std::string const& id)
{
    if (!may_act(with, service)) return styled("p", "soft", why_not_act(with, service));
    auto const to = [&](std::string const& verb) {
        return element("a",
                       {{"class", "button"}, {"href", link("/act", {{"verb", verb}, {"parked", service + '\n' + id}})}},
                       verb + "…");
    };
    return element("div", {{"class", "acts"}, {"role", "group"}, {"aria-label", "Acts"}}, to("replay") + to("drop"));
}

response show(context const& with, std::string const& service, json const& one, prospect const& replay)
{
    auto const id = one["id"].dump(), key = one["key"].get<std::string>(), step = step_or_handler(one),
               scope = one["scope"].get<std::string>(), reason = one["reason"].get<std::string>();
    auto const home = one["headers"].value("x-saga-home", "");
    markup saga = element("code", key);
    if (!home.empty() && !key.empty()) saga = element("a", {{"href", saga_link(home, scope, key)}}, saga);
    auto const would = replay.refused.empty() ? markup{"A replay puts it back into the outbox of " + service +
                                                       ", under the same key and with attempts counted from scratch. "
                                                       "The guard still lets it take effect once."}
                                              : markup{"A replay would be refused: "} + sentence(replay.refused) + ".";
    return page(
        with, "Parked delivery " + id, "Parked",
        element("h1", "Delivery " + id + " at " + service + " ") +
            element("p", {{"class", "sentence"}}, pill(reason, "no") + raw(" ") + markup{meaning_of(reason)}) +
            (one["error"].get<std::string>().empty() ? markup{}
                                                     : styled("p", "error", one["error"].get<std::string>())) +
            styled(
                "p", "facts",
                markup{step.empty() ? "no step" : step} +
                    (one["handler"].get_ref<std::string const&>().empty() ? " of " : ", message ") + saga +
                    (scope.empty() ? markup{} : markup{" in scope " + scope}) + " · parked " +
                    shown_time(one["parked_at"].get<std::string>()) + " · " +
                    counted(one["attempts"].get<std::int64_t>(), "attempt", "attempts") +
                    (one["record"].is_null() ? "" : " · its step is recorded as " + one["record"].get<std::string>())) +
            element("section", {{"class", "card"}},
                    element("h2", "What to do") + element("p", sentence(one["advice"].get<std::string>())) +
                        element("p", would)) +
            acts_of(with, service, id) + element("section", {{"class", "card"}}, element("h2", "Body") + body_of(one)) +
            element("section", {{"class", "card"}}, element("h2", "Headers") + headers_of(one["headers"])));
}

}  // namespace

response parked_page(context const& with)
{
    bool const goes_on = !with.asked.asked("after").empty();
    if (goes_on && (read_id(with.asked.asked("after")) <= 0 || with.all.find(with.asked.asked("service")) == nullptr)) {
        return page(with, "Parked", "Parked",
                    element("h1", "No such page") +
                        styled("p", "note no",
                               "“after” is the number of a parked delivery, of a service that “service” names: a page "
                               "goes on there."),
                    400);
    }
    std::vector<away> missing;
    markup sections;
    for (auto const& db : with.all.all()) {
        if (!with.asked.asked("after").empty() && with.asked.asked("service") != db->service()) continue;
        sections += of_service(with, *db, missing);
    }
    if (sections.empty() && missing.empty())
        sections =
            styled("p", "empty",
                   is_narrowed(with.asked) ? "Nothing that is parked matches the filter." : "Nothing is parked.");
    return page(with, "Parked", "Parked",
                element("h1", {{"class", "quiet"}}, "Parked deliveries") +
                    styled("p", "soft",
                           "Deliveries that could not be processed. Nothing gives them up by itself: someone replays "
                           "them, or drops them.") +
                    filters(with.asked) + missing_note(missing, "What is parked there is not shown.") + sections);
}

response parked_one_page(context const& with)
{
    auto const service = with.asked.asked("service");
    auto const id = read_id(with.asked.asked("id"));
    auto const title = id > 0 ? "Delivery " + std::to_string(id) : "No such delivery";
    auto const missing = [&](std::string const& why, int status) {
        return page(with, "Parked", "Parked", element("h1", title) + styled("p", "note no", why), status);
    };
    if (id <= 0) return missing("A parked delivery has a number: 1, 2 and so on.", 400);
    auto* const db = with.all.find(service);
    if (db == nullptr) return missing("This console was not given the address of " + service + ".", 404);
    try {
        auto const one = db->ask([&](postgres::connection& c) { return admin::show_parked(c, id); });
        if (!one)
            return missing("There is no such delivery at " + service +
                               ": it was replayed or dropped already, or never was here.",
                           404);
        return show(with, service, *one, look_ahead(with.all, verb::replay, {{service, {}, {}, id}}).at(0));
    }
    catch (away const& why) {
        return page(with, "Parked", "Parked", element("h1", title) + missing_note({why}, "It can't be shown."), 503);
    }
}

}  // namespace skald::console
