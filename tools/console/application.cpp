#include "application.hpp"

#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "pages.hpp"
#include "skald_console_assets.hpp"

#include <exception>
#include <map>
#include <string_view>

namespace skald::console {
namespace {

// No script and no style but ours, nothing from elsewhere, in no one's frame; and no address of ours, which may hold a
// key, is told to anyone else. (`no-referrer` would also make a browser hide from where a form of ours comes.)
void add_headers(response& to)
{
    to.headers.emplace_back(
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
    to.headers.emplace_back("Referrer-Policy", "same-origin");
    to.headers.emplace_back("X-Content-Type-Options", "nosniff");
    to.headers.emplace_back("X-Frame-Options", "DENY");
    to.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
    to.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
}

response asset(std::string_view text, std::string_view type)
{
    response made{200, std::string{text}, std::string{type}, {}};
    made.headers.emplace_back("Cache-Control", "max-age=86400");
    return made;
}

response redirect(std::string const& to)
{
    response made{303, {}, "text/plain", {}};
    made.headers.emplace_back("Location", to);
    return made;
}

// What has not changed since is not sent again: the script asks every few seconds.
void answer_unchanged(request const& asked, response& to)
{
    if (asked.method != "GET" || to.status != 200) return;
    auto const tag = '"' + core::to_hex(core::fingerprint_of(to.body)).substr(0, 32) + '"';
    to.headers.emplace_back("ETag", tag);
    if (asked.header("If-None-Match") != tag) return;
    to.status = 304;
    to.body.clear();
}

response plain(std::string const& title, std::string const& said, int status)
{
    return bare_page(title, element("h1", title) + element("p", said), status);
}

// What is wrong with what the query or the form says; empty: nothing.
std::string flaw_of(request const& asked)
{
    if (!asked.is_readable) return "An escape (%XX) in the address or in the form is broken.";
    for (auto const* all : {&asked.query, &asked.form})
        for (auto const& [name, value] : *all)
            if (!core::is_storable_text(name + value))
                return "What was given for “" + core::visible_text(name) +
                       "” is no text: it has a NUL byte, or bytes that are not UTF-8.";
    return {};
}

response no_such_page(context const& with)
{
    return page(with, "No such page", "",
                element("h1", "No such page") + element("p", element("a", {{"href", "/"}}, "To the sagas")), 404);
}

response get(context const& with)
{
    using maker = response (*)(context const&);
    static std::map<std::string_view, maker> const pages{
        {"/", sagas_page},        {path_of_json, sagas_as_json},    {"/saga", saga_page},
        {"/parked", parked_page}, {"/parked/one", parked_one_page}, {"/outbox", outbox_page},
        {"/steps", steps_page},   {"/services", services_page},     {"/audit", audit_page_of},
        {"/act", act_page},       {"/resolve", resolve_page},       {"/versions", versions_page}};
    auto const it = pages.find(with.asked.path);
    return it == pages.end() ? no_such_page(with) : it->second(with);
}

}  // namespace

application::application(settings const& given, std::shared_ptr<core::logger> log)
    : log_{std::move(log)}, access_{given}, databases_{given}, waits_for_databases_{given.answer_within}
{}

response application::answer(request const& asked) const
{
    response made;
    try {
        patience const of_this_page{waits_for_databases_};
        made = route(asked);
    }
    catch (std::exception const& error) {
        made = plain("Something went wrong", error.what(), 500);
    }
    add_headers(made);
    return made;
}

response application::route(request const& asked) const
{
    if (!access_.is_for_us(asked))
        return plain("Not here", "This console answers to localhost and 127.0.0.1 only.", 421);
    if (asked.method != "GET" && asked.method != "POST") {
        auto made = plain("Not allowed", "This console answers GET, HEAD and POST.", 405);
        made.headers.emplace_back("Allow", "GET, HEAD, POST");
        return made;
    }
    if (auto const flaw = flaw_of(asked); !flaw.empty())
        return asked.path == path_of_json ? refused_as_json(flaw) : plain("That can't be read", flaw, 400);
    if (asked.path == "/style.css") return asset(assets::style, "text/css; charset=utf-8");
    if (asked.path == "/script.js") return asset(assets::script, "text/javascript; charset=utf-8");
    if (asked.path == "/icon.svg") return asset(assets::icon, "image/svg+xml");
    if (!access_.brings_token(asked)) return for_someone(asked);
    if (auto const wait = wrong_tokens_.wait(asked.peer, wrong_tokens::clock::now()); wait.count() > 0) {
        auto made = ask_for_token("Too many wrong tokens came from your address. Wait a minute.", 429);
        made.headers.emplace_back("Retry-After", std::to_string(wait.count()));
        return made;
    }
    auto made = for_someone(asked);
    if (made.status != 401) return made;
    auto const wrong = wrong_tokens_.count(asked.peer, wrong_tokens::clock::now());
    if (wrong == 1) log_->warning("console.token_refused", {{"peer", asked.peer}});
    if (wrong == wrong_tokens::count_max) log_->warning("console.locked_out", {{"peer", asked.peer}});
    return made;
}

response application::for_someone(request const& asked) const
{
    if (asked.path == "/sign-in" && access_.has_tokens()) return sign_in(asked);
    auto const by = access_.who(asked);
    if (by) return for_person(asked, *by);
    if (access_.has_tokens()) return ask_for_token({}, 401);
    return plain("Who are you?", "The proxy before this console has to say who is there, and did not.", 401);
}

response application::sign_in(request const& asked) const
{
    if (asked.method != "POST") return ask_for_token({}, 200);
    if (!access::is_from_here(asked)) return ask_for_token("That form was not ours.", 403);
    auto const cookie = access_.sign_in(asked, asked.filled_in("token"));
    if (!cookie) return ask_for_token("There is no such token.", 401);
    log_->info("console.signed_in", {{"name", access_.name_of(asked.filled_in("token"))}, {"peer", asked.peer}});
    auto made = redirect("/");
    made.headers.emplace_back("Set-Cookie", *cookie);
    return made;
}

response application::ask_for_token(std::string const& complaint, int status) const
{
    auto const note = complaint.empty() ? markup{} : element("p", {{"class", "note no"}, {"role", "alert"}}, complaint);
    return bare_page("Sign in",
                     element("h1", "Skald") + note +
                         element("form", {{"method", "post"}, {"action", "/sign-in"}, {"class", "act"}},
                                 field("Your token", {{"name", "token"},
                                                      {"type", "password"},
                                                      {"autocomplete", "current-password"},
                                                      attribute::flag("required")}) +
                                     element("button", {{"class", "strong"}}, "Sign in")),
                     status);
}

response application::for_person(request const& asked, person const& by) const
{
    context const with{asked, by, databases_};
    auto made = asked.method == "POST" ? post(with) : get(with);
    made.headers.emplace_back("Cache-Control", "no-store");
    answer_unchanged(asked, made);
    return made;
}

response application::post(context const& with) const
{
    if (!access_.is_ours(with.asked, with.by)) {
        return page(with, "Not ours", "",
                    element("h1", "Nothing was done") +
                        element("p", "That form was not filled in on a page of this console, or it is older than this "
                                     "console's process. Go back, load the page again, and send it once more."),
                    403);
    }
    if (with.asked.path == "/act/preview") return act_on_chosen(with);
    if (with.asked.path == "/act" || with.asked.path == "/resolve") return carry_out(with);
    if (with.asked.path != "/sign-out") return no_such_page(with);
    auto made = redirect("/");
    made.headers.emplace_back("Set-Cookie", access::sign_out());
    return made;
}

response application::carry_out(context const& with) const
{
    bool const is_resolve = with.asked.path == "/resolve";
    auto made = is_resolve ? resolve(with) : act(with);
    auto const what = is_resolve ? "resolve" : core::visible_text(with.asked.filled_in("verb"));
    log_->info(
        "console.act",
        {{"name", with.by.name}, {"peer", with.asked.peer}, {"act", what}, {"status", std::to_string(made.status)}});
    return made;
}

}  // namespace skald::console
