// A browser is asked for a token once, and known by a cookie from then on.
#include "console/application.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace skald::console;

namespace {

std::string const ada = "0123456789abcdef0123456789abcdef";

application console_with_tokens()
{
    settings given;
    given.services = {{"orders", "postgresql://127.0.0.1:1/orders"}};
    given.tokens = "operator ada " + ada;
    return application{given};
}

request with(std::string const& method, std::string const& path, std::map<std::string, std::string> const& headers = {})
{
    request made{method, path};
    made.header = [headers](std::string const& name) {
        auto const it = headers.find(name);
        return it == headers.end() ? std::string{} : it->second;
    };
    return made;
}

request signing_in(std::string const& token, std::map<std::string, std::string> const& headers = {})
{
    auto made = with("POST", "/sign-in", headers);
    made.form.emplace("token", token);
    return made;
}

std::string header_of(response const& made, std::string const& name)
{
    for (auto const& [key, value] : made.headers)
        if (key == name) return value;
    return {};
}

}  // namespace

TEST_CASE("who has no token sees the question for it, on every page")
{
    auto const console = console_with_tokens();
    for (auto const* path : {"/", "/saga", "/act", "/nowhere"}) {
        auto const page = console.answer(with("GET", path));
        CHECK(page.status == 401);
        CHECK(page.body.find("Your token") != std::string::npos);
        CHECK(page.body.find("class=\"tabs\"") == std::string::npos);
    }
    CHECK(console.answer(with("POST", "/act")).status == 401);
}

TEST_CASE("a token is exchanged for a cookie that opens the pages")
{
    auto const console = console_with_tokens();
    auto const signed_in = console.answer(signing_in(ada));
    CHECK(signed_in.status == 303);
    CHECK(header_of(signed_in, "Location") == "/");
    auto const cookie = header_of(signed_in, "Set-Cookie");
    auto const page = console.answer(with("GET", "/audit", {{"Cookie", cookie.substr(0, cookie.find(';'))}}));
    CHECK(page.status == 200);
    CHECK(page.body.find(">ada<") != std::string::npos);
    CHECK(header_of(page, "Cache-Control") == "no-store");
    CHECK(page.body.find("action=\"/sign-out\"") != std::string::npos);

    auto signing_out = with("POST", "/sign-out", {{"Cookie", cookie.substr(0, cookie.find(';'))}});
    CHECK(console.answer(signing_out).status == 403);
    auto const key = page.body.find("name=\"form_key\" value=\"") + 23;
    signing_out.form.emplace("form_key", page.body.substr(key, 64));
    auto const signed_out = console.answer(signing_out);
    CHECK(signed_out.status == 303);
    CHECK(header_of(signed_out, "Set-Cookie").find("Max-Age=0") != std::string::npos);
}

TEST_CASE("a wrong token, and a form of another site, open nothing")
{
    auto const console = console_with_tokens();
    CHECK(console.answer(signing_in("nonsense")).status == 401);
    CHECK(console.answer(signing_in("")).status == 401);
    auto const foreign = console.answer(signing_in(ada, {{"Sec-Fetch-Site", "cross-site"}}));
    CHECK(foreign.status == 403);
    CHECK(header_of(foreign, "Set-Cookie").empty());
    CHECK(console.answer(signing_in(ada, {{"Host", "console"}, {"Origin", "https://evil.example"}})).status == 403);
}

TEST_CASE("a page that has not changed is not sent again")
{
    auto const console = console_with_tokens();
    std::map<std::string, std::string> headers{{"Authorization", "Bearer " + ada}};
    auto const first = console.answer(with("GET", "/act", headers));  // needs no database
    CHECK(first.status == 400);
    CHECK(header_of(first, "ETag").empty());
    auto const page = console.answer(with("GET", "/audit", headers));
    headers["If-None-Match"] = header_of(page, "ETag");
    REQUIRE_FALSE(headers["If-None-Match"].empty());
    auto const again = console.answer(with("GET", "/audit", headers));
    CHECK(again.status == 304);
    CHECK(again.body.empty());
    CHECK(header_of(again, "Content-Security-Policy") == header_of(page, "Content-Security-Policy"));
}

TEST_CASE("what can't be read is said to be so, and not asked of any database")
{
    auto const console = console_with_tokens();
    auto asked = with("GET", "/", {{"Authorization", "Bearer " + ada}});
    for (auto const* bytes : {"\xff", "\xc3("}) {
        asked.query = {{"reason", bytes}};
        auto const page = console.answer(asked);
        CHECK(page.status == 400);
        CHECK(page.body.find("What was given for “reason” is no text") != std::string::npos);
    }
    asked.query = {{"scope", std::string("a\0b", 3)}};
    CHECK(console.answer(asked).status == 400);
    asked.path = "/sagas.json";
    asked.query.emplace("\xff", "");
    auto const object = console.answer(asked);
    CHECK(object.status == 400);
    CHECK(object.content_type == "application/json");
    CHECK(nlohmann::json::parse(object.body).at("error").is_string());
    asked.path = "/";
    asked.query.clear();
    asked.is_readable = false;
    CHECK(console.answer(asked).status == 400);
    CHECK(console.answer(with("DELETE", "/")).status == 405);
}
