#include "page.hpp"

#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "postgres/literal.hpp"
#include "skald_console_assets.hpp"
#include "skald_console_queries.hpp"

#include <pqxx/pqxx>

#include <array>

namespace skald::console {
namespace {

constexpr std::int64_t parked_counted_max = 1'000;

// So that a browser takes the new one after an upgrade.
std::string version_of(std::string_view text)
{
    return core::to_hex(core::fingerprint_of(text)).substr(0, 12);
}

// How many deliveries are parked, for the navigation; a database that is away adds none.
std::string parked_badge(databases const& all)
{
    std::int64_t sum = 0;
    for (auto const& db : all.all()) {
        try {
            sum += db->ask([](postgres::connection& c) {
                return c.run(postgres::filled_in(queries::parked_count{.count_max = parked_counted_max}))[0][0]
                    .as<std::int64_t>();
            });
        }
        catch (away const&) {
        }
    }
    return sum == 0 ? std::string{} : sum >= parked_counted_max ? "1,000+" : std::to_string(sum);
}

markup head(std::string const& title)
{
    static auto const style = link("/style.css", {{"v", version_of(assets::style)}});
    static auto const script = link("/script.js", {{"v", version_of(assets::script)}});
    return element("head",
                   lone("meta", {{"charset", "utf-8"}}) +
                       lone("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}}) +
                       lone("meta", {{"name", "color-scheme"}, {"content", "light dark"}}) +
                       element("title", title + " · Skald") +
                       lone("link", {{"rel", "icon"}, {"href", "/icon.svg"}, {"type", "image/svg+xml"}}) +
                       lone("link", {{"rel", "stylesheet"}, {"href", style}}) +
                       element("script", {{"src", script}, attribute::flag("defer")}));
}

response document(std::string const& title, markup const& body, int status)
{
    auto const html = raw("<!doctype html>\n") + element("html", {{"lang", "en"}}, head(title) + element("body", body));
    response made;
    made.status = status;
    made.body = html.code();
    return made;
}

markup navigation(context const& with, std::string const& tab)
{
    struct entry
    {
        std::string_view name, path;
    };
    constexpr std::array<entry, 6> entries{{{"Sagas", "/"},
                                            {"Parked", "/parked"},
                                            {"Outbox", "/outbox"},
                                            {"Steps", "/steps"},
                                            {"Services", "/services"},
                                            {"Audit", "/audit"}}};
    markup links;
    for (auto const& one : entries) {
        markup words = one.name;
        if (one.name == "Parked")
            if (auto const count = parked_badge(with.all); !count.empty())
                words += raw(" ") + styled("span", "badge", count);
        attributes with_it{{"href", one.path}};
        if (tab == one.name) with_it.emplace_back("aria-current", "page");
        links += element("a", with_it, words);
    }
    markup who = with.by.name;
    if (with.by.role != role::operator_) who += styled("span", "soft", " · viewer");
    if (with.by.is_signed_in) {
        who += element("form", {{"method", "post"}, {"action", "/sign-out"}},
                       hidden("form_key", with.by.form_key) + element("button", "Sign out"));
    }
    return element("header",
                   styled("nav", "tabs", styled("span", "brand", "Skald") + links) + styled("div", "who", who));
}

}  // namespace

response page(context const& with, std::string const& title, std::string const& tab, markup const& body, int status)
{
    return document(title,
                    element("a", {{"class", "skip"}, {"href", "#main"}}, "To the content") + navigation(with, tab) +
                        element("main", {{"id", "main"}}, body),
                    status);
}

response bare_page(std::string const& title, markup const& body, int status)
{
    return document(title, element("main", {{"id", "main"}, {"class", "narrow"}}, body), status);
}

markup missing_note(std::vector<away> const& missing, std::string const& what_is_missing)
{
    markup notes;
    for (auto const& one : missing)
        notes += element("p", {{"class", "note no"}},
                         element("b", one.service) +
                             (one.kind == away::how::refused ? " answers with an error: " : " does not answer: ") +
                             one.what() + ". " + what_is_missing);
    return notes;
}

markup pill(std::string const& words, std::string const& tone)
{
    return styled("span", "pill " + tone, words);
}

std::string saga_link(std::string const& home, std::string const& scope, std::string const& key)
{
    return link("/saga", {{"home", home}, {"scope", scope}, {"key", key}});
}

bool may_act(context const& with, std::string const& service)
{
    return with.by.role == role::operator_ && with.all.operating(service) != nullptr;
}

std::string why_not_act(context const& with, std::string const& service)
{
    if (with.by.role != role::operator_) return with.by.name + " is a viewer here: acts are for operators.";
    return "This console only reads " + service + ": start it with --operate " + service + "=FILE to act there.";
}

markup hidden(std::string_view name, std::string_view value)
{
    return lone("input", {{"type", "hidden"}, {"name", name}, {"value", value}});
}

markup field(std::string_view words, attributes const& input)
{
    return element("label", styled("span", "label", words) + lone("input", input));
}

}  // namespace skald::console
