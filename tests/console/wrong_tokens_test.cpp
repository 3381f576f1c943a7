// Whoever guesses tokens is slowed down, and nobody else.
#include "console/wrong_tokens.hpp"

#include "console/application.hpp"
#include "support/event_log.hpp"

#include <doctest/doctest.h>

using namespace skald::console;
using namespace std::chrono_literals;

namespace {

std::string const ada = "0123456789abcdef0123456789abcdef";
wrong_tokens::clock::time_point const start{1h};

request from(std::string const& peer, std::string const& token)
{
    request made{"POST", "/sign-in"};
    made.peer = peer;
    made.form.emplace("token", token);
    return made;
}

request by_program(std::string const& peer, std::string const& token)
{
    request made{"GET", "/act"};  // needs no database
    made.peer = peer;
    made.header = [token](std::string const& name) { return name == "Authorization" ? "Bearer " + token : ""; };
    return made;
}

}  // namespace

TEST_CASE("after ten wrong tokens an address waits for the rest of the minute, and then begins anew")
{
    wrong_tokens seen;
    for (int i = 0; i < wrong_tokens::count_max - 1; ++i) seen.count("a", start);
    CHECK(seen.wait("a", start) == 0s);
    seen.count("a", start + 20s);
    CHECK(seen.wait("a", start + 20s) == 40s);
    CHECK(seen.wait("b", start + 20s) == 0s);
    CHECK(seen.wait("a", start + 60s) == 0s);
    seen.count("a", start + 60s);
    CHECK(seen.wait("a", start + 60s) == 0s);
}

TEST_CASE("what is remembered has an end: the oldest is forgotten")
{
    wrong_tokens seen;
    auto const annoy = [&](std::string const& peer, wrong_tokens::clock::time_point at) {
        for (int i = 0; i < wrong_tokens::count_max; ++i) seen.count(peer, at);
    };
    annoy("first", start);
    for (std::size_t i = 1; i < wrong_tokens::peers_max; ++i) annoy(std::to_string(i), start + 1s);
    CHECK(seen.wait("first", start + 1s) > 0s);
    annoy("one more", start + 1s);
    CHECK(seen.wait("first", start + 1s) == 0s);
    CHECK(seen.wait("1", start + 1s) > 0s);
}

TEST_CASE("a guesser gets 429, whatever comes next from there, and others come in")
{
    settings given;
    given.services = {{"orders", "postgresql://127.0.0.1:1/orders"}};
    given.tokens = "operator ada " + ada;
    auto const log = std::make_shared<skald::test::event_log>();
    application const console{given, log};
    for (int i = 0; i < wrong_tokens::count_max; ++i)
        CHECK(console.answer(i % 2 == 0 ? from("a", "guess") : by_program("a", "guess")).status == 401);
    auto const refused = console.answer(from("a", ada));
    CHECK(refused.status == 429);
    CHECK(std::ranges::any_of(refused.headers, [](auto const& h) { return h.first == "Retry-After"; }));
    CHECK(console.answer(by_program("a", ada)).status == 429);
    auto const signed_in = console.answer(from("b", ada));
    REQUIRE(signed_in.status == 303);
    CHECK(console.answer(from("b", "guess")).status == 401);
    using lines = std::vector<std::string>;
    CHECK(log->lines("console.token_refused") == lines{"now warning service console.token_refused peer=a\n",
                                                       "now warning service console.token_refused peer=b\n"});
    CHECK(log->lines("console.locked_out") == lines{"now warning service console.locked_out peer=a\n"});
    CHECK(log->lines("console.signed_in") == lines{"now info service console.signed_in name=ada peer=b\n"});

    // Who has signed in is not asked for a token.
    auto cookie = std::string{};
    for (auto const& [name, value] : signed_in.headers)
        if (name == "Set-Cookie") cookie = value.substr(0, value.find(';'));
    request known{"GET", "/act"};
    known.peer = "a";
    known.header = [cookie](std::string const& name) { return name == "Cookie" ? cookie : std::string{}; };
    CHECK(console.answer(known).status == 400);
}
