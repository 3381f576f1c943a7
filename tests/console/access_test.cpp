// Who may look and who may act.
#include "console/access.hpp"
#include "console/patience.hpp"

#include <skald/errors.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include <unistd.h>

using namespace skald::console;
using skald::configuration_error;

namespace {

std::string const ada = "0123456789abcdef0123456789abcdef", bob = "fedcba9876543210fedcba9876543210";

settings base()
{
    settings given;
    given.services = {{"orders", "postgresql://127.0.0.1/orders"}};
    return given;
}

settings with_tokens()
{
    auto given = base();
    given.tokens = "# people\noperator ada " + ada + "\n\nviewer bob " + bob + "\n";
    return given;
}

request asking(std::map<std::string, std::string> const& headers)
{
    request asked{"GET", "/"};
    asked.header = [headers](std::string const& name) {
        auto const it = headers.find(name);
        return it == headers.end() ? std::string{} : it->second;
    };
    return asked;
}

std::string cookie_of(skald::console::access const& a, std::string const& token)
{
    auto const set = a.sign_in(asking({}), token).value();
    return set.substr(0, set.find(';'));
}

}  // namespace

TEST_CASE("off loopback the console does not start unless something says who is there")
{
    auto given = base();
    CHECK_NOTHROW(check(given));
    for (auto const* open : {"0.0.0.0:8090", "10.0.0.1:8090", "[::]:8090", "console.example:8090"}) {
        given.listen = open;
        CHECK_THROWS_AS(check(given), configuration_error);
    }
    given.tokens = "operator ada " + ada;
    CHECK_NOTHROW(check(given));
    given.tokens.clear();
    given.user_header = "X-User";
    CHECK_NOTHROW(check(given));
}

TEST_CASE("settings that contradict each other are refused")
{
    auto given = base();
    given.services.clear();
    CHECK_THROWS_AS(check(given), configuration_error);
    given = base();
    given.operating = {{"payments", ""}};
    CHECK_THROWS_WITH(check(given), doctest::Contains("--operate payments needs --service payments"));
    given = with_tokens();
    given.user_header = "X-User";
    CHECK_THROWS_WITH(check(given), doctest::Contains("exclude each other"));
    given = base();
    given.operators = {"ada"};
    CHECK_THROWS_AS(check(given), configuration_error);
    given = base();
    given.services.push_back(given.services[0]);
    CHECK_THROWS_WITH(check(given), doctest::Contains("names orders twice"));
}

TEST_CASE("what is wrong with the address in a file names the file")
{
    auto const file = std::filesystem::temp_directory_path() / ("skald-console-" + std::to_string(::getpid()));
    for (auto const* wrong : {"nonsense", "postgresql://host:port/orders", "host=a sslmode=perhaps"}) {
        std::ofstream{file} << wrong;
        CHECK_THROWS_WITH(read_address("--service", "orders=" + file.string()),
                          doctest::Contains(("--service orders: the address in " + file.string()).c_str()));
    }
    std::ofstream{file} << "postgresql://looks@127.0.0.1/orders\n";
    CHECK(read_address("--service", "orders=" + file.string()).url == "postgresql://looks@127.0.0.1/orders");
    std::filesystem::remove(file);
}

TEST_CASE("a token file that can't be read as one is refused, with its line")
{
    auto given = base();
    for (auto const* line : {"ada", "admin ada 0123456789abcdef0123456789abcdef", "operator ada short",
                             "operator ada 0123456789abcdef0123456789abcdef more", "# nobody"}) {
        given.tokens = line;
        CHECK_THROWS_AS(skald::console::access{given}, configuration_error);
    }
    given.tokens = "viewer bob " + bob + "\noperator ada " + bob;
    CHECK_THROWS_WITH(skald::console::access{given}, doctest::Contains("line 2 has the token of bob"));
    given.tokens = "viewer bob " + bob + "\nnonsense";
    CHECK_THROWS_WITH(skald::console::access{given}, doctest::Contains("line 2"));
}

TEST_CASE("a token says who it is, and no other text does")
{
    skald::console::access const a{with_tokens()};
    CHECK_FALSE(a.who(asking({})));
    CHECK_FALSE(a.who(asking({{"Authorization", "Bearer " + ada + "0"}})));
    CHECK_FALSE(a.who(asking({{"Authorization", "Bearer "}})));
    auto const found = a.who(asking({{"Authorization", "Bearer " + ada}}));
    REQUIRE(found);
    CHECK(found->name == "ada");
    CHECK(found->role == role::operator_);
    CHECK(a.who(asking({{"Authorization", "Bearer " + bob}}))->role == role::viewer);
}

TEST_CASE("a cookie counts only as it was made, in the process that made it")
{
    skald::console::access const a{with_tokens()}, other{with_tokens()};
    auto const cookie = cookie_of(a, bob);
    CHECK(a.who(asking({{"Cookie", "x=1; " + cookie}}))->name == "bob");
    CHECK_FALSE(other.who(asking({{"Cookie", cookie}})));
    auto forged = cookie;
    forged[forged.find('=') + 1] = '0';  // ada's
    CHECK_FALSE(a.who(asking({{"Cookie", forged}})));
    for (auto const* text :
         {"skald_console=", "skald_console=0", "skald_console=0.9.", "skald_console=..", "skald_console=-1.1.x"})
        CHECK_FALSE(a.who(asking({{"Cookie", text}})));
    CHECK_FALSE(a.sign_in(asking({}), "nonsense"));
    auto const set = a.sign_in(asking({}), ada).value();
    CHECK(set.find("HttpOnly; SameSite=Strict") != std::string::npos);
    CHECK(set.find("Secure") == std::string::npos);
    CHECK(a.sign_in(asking({{"X-Forwarded-Proto", "https"}}), ada)->find("; Secure") != std::string::npos);
    CHECK(a.sign_in(asking({{"Origin", "https://console.example"}}), ada)->find("; Secure") != std::string::npos);
    CHECK(a.sign_in(asking({{"Origin", "http://console.example"}}), ada)->find("; Secure") == std::string::npos);
}

TEST_CASE("behind a proxy its header says who it is, and the command line who may act")
{
    auto given = base();
    given.user_header = "X-User";
    given.operators = {"ada"};
    skald::console::access const a{given};
    CHECK_FALSE(a.who(asking({})));
    CHECK(a.who(asking({{"X-User", "ada"}}))->role == role::operator_);
    CHECK(a.who(asking({{"X-User", "eve"}}))->role == role::viewer);
    CHECK_FALSE(a.who(asking({{"X-User", "a\nb"}})));
}

TEST_CASE("a form counts only with the key of the person who filled it in, from a page of ours")
{
    auto given = base();
    given.user_header = "X-User";
    skald::console::access const a{given};
    auto const eve = a.who(asking({{"X-User", "eve"}})).value(), ada_here = a.who(asking({{"X-User", "ada"}})).value();
    auto form = asking({});
    CHECK_FALSE(a.is_ours(form, ada_here));
    form.form.emplace("form_key", eve.form_key);
    CHECK(a.is_ours(form, eve));
    CHECK_FALSE(a.is_ours(form, ada_here));
    auto foreign = asking({{"Sec-Fetch-Site", "cross-site"}});
    foreign.form.emplace("form_key", eve.form_key);
    CHECK_FALSE(a.is_ours(foreign, eve));
    auto const is_ours_from = [&](std::map<std::string, std::string> const& headers) {
        auto posted = asking(headers);
        posted.form.emplace("form_key", eve.form_key);
        return a.is_ours(posted, eve);
    };
    CHECK(is_ours_from({{"Host", "console:8090"}, {"Origin", "http://console:8090"}}));
    CHECK(is_ours_from({{"Host", "inside"}, {"X-Forwarded-Host", "console"}, {"Origin", "https://console"}}));
    for (auto const* origin : {"https://evil.example", "http://console:8091", "null", "console:8090", "http://"})
        CHECK_FALSE(is_ours_from({{"Host", "console:8090"}, {"Origin", origin}}));
}

TEST_CASE("on loopback only loopback's names lead to the console")
{
    skald::console::access const a{base()};
    for (auto const* host : {"localhost:8090", "127.0.0.1:8090", "127.0.0.1", "[::1]:8090"})
        CHECK(a.is_for_us(asking({{"Host", host}})));
    for (auto const* host :
         {"evil.example", "evil.example:8090", "", "localhost.evil.example", "127.0.0.1.evil.example"})
        CHECK_FALSE(a.is_for_us(asking({{"Host", host}})));
}

TEST_CASE("what a page waits for shares its time, and each may have a little however long the others took")
{
    using namespace std::chrono_literals;
    CHECK(patience::left(4s) == 4s);
    {
        patience const of_a_page{1h};
        CHECK(patience::left(4s) == 4s);
        patience const that_is_used_up{0ms};
        CHECK(patience::left(4s) == 500ms);
        CHECK(patience::left(100ms) == 100ms);
    }
    CHECK(patience::left(4s) == 4s);
}
