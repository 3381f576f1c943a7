// The console on real sockets: what slow clients and frozen databases can, and can't, do to a page.
#include "console_shop.hpp"

#include "console/server.hpp"
#include "http/server.hpp"
#include "support/database_wire.hpp"
#include "support/raw_http.hpp"

#include <skald/errors.hpp>
#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace std::chrono_literals;
using skald::console::application;
using skald::test::console_shop;
using skald::test::database_wire;
using skald::test::raw_client;
using skald::test::says;
using skald::test::visitor;
using skald::testing::wait_until;

namespace {

skald::console::settings on_any_port(console_shop& s)
{
    auto given = s.given();
    given.listen = "127.0.0.1:0";
    given.threads = 2;
    return given;
}

std::uint16_t port_of(skald::console::server const& console)
{
    auto const address = console.address();
    return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

std::string with_token(std::string const& line, std::string const& more = "")
{
    return line + " HTTP/1.1\r\nHost: console\r\nAuthorization: Bearer " + console_shop::bob + "\r\n" + more + "\r\n";
}

}  // namespace

TEST_CASE("sixty half requests keep no page from being served")
{
    console_shop s;
    s.order("1");
    skald::console::server const console{on_any_port(s)};
    std::vector<raw_client> slow;
    for (int i = 0; i < 60; ++i) {
        slow.emplace_back(port_of(console));
        slow.back().send("GET / HTTP/1.1\r\nHost: console\r\nX-Slow: ");
    }
    raw_client quick{port_of(console)};
    auto const page = quick.ask(with_token("GET /"));
    CHECK(page.status == 200);
    CHECK(page.body.find(">1</code>") != std::string::npos);
    for (auto& one : slow) {
        CHECK_FALSE(one.has_heard());  // none was turned away to make room
        one.send("x");
    }
    CHECK(quick.ask(with_token("GET /saga?key=1")).status == 200);
}

TEST_CASE("wrong tokens are counted for the address that they come from")
{
    console_shop s;
    skald::console::server const console{on_any_port(s)};
    raw_client guesser{port_of(console)}, other{port_of(console), 0, INADDR_LOOPBACK + 1};
    auto const wrong = "GET / HTTP/1.1\r\nHost: console\r\nAuthorization: Bearer guess\r\n\r\n";
    for (int i = 0; i < 10; ++i) CHECK(guesser.ask(wrong).status == 401);
    CHECK(guesser.ask(with_token("GET /")).status == 429);
    CHECK(raw_client{port_of(console)}.ask(with_token("GET /")).status == 429);
    CHECK(other.ask(with_token("GET /")).status == 200);
}

TEST_CASE("requests are read as they are meant, and no other methods are known")
{
    console_shop s;
    s.order("a b");
    skald::console::server const console{on_any_port(s)};
    raw_client c{port_of(console)};
    CHECK(c.ask(with_token("GET /saga?key=a+b")).status == 200);
    auto const style = c.ask(with_token("GET /style.css"));
    CHECK(style.has("Content-Type: text/css; charset=utf-8"));
    c.send(with_token("HEAD /"));
    auto const head = c.read_answer(false);
    CHECK(head.status == 200);
    auto const tag = c.ask(with_token("GET /saga?key=a%20b")).value_of("ETag");
    auto const again = c.ask(with_token("GET /saga?key=none", "If-None-Match: " + tag + "\r\n"));
    CHECK(again.status == 404);
    auto const put = c.ask(with_token("PUT /", "Content-Length: 0\r\n"));
    CHECK(put.status == 405);
    CHECK(put.has("Allow: GET, HEAD, POST"));
    CHECK(c.ask(with_token("GET /?key=%2")).status == 400);
    std::string const form = "verb=pause&saga=orders%0A%0Aa+b&reason=x&confirm=a+b";
    auto const post = [&](std::string const& path) {
        return c.ask(with_token("POST " + path, "Content-Length: " + std::to_string(form.size()) + "\r\n") + form);
    };
    CHECK(post("/act").status == 403);
    CHECK(c.ask(with_token("GET /")).status == 200);
}

TEST_CASE("an address that is taken is named, and no mistake in the settings: it may be free later")
{
    console_shop s;
    auto given = on_any_port(s);
    skald::console::server const console{given};
    given.listen = console.address();
    CHECK_THROWS_WITH_AS(skald::console::server{given}, doctest::Contains("--listen"),
                         skald::http::address_unavailable);
}

TEST_CASE("a page is answered while a service's database is frozen, and says so")
{
    console_shop s;
    s.order("1");
    s.run();
    database_wire to_payments{s.at("payments").db.url()}, to_shipping{s.at("shipping").db.url()};
    auto given = s.given();
    given.services[1].url = to_payments.url();
    given.services[2].url = to_shipping.url();
    given.operating.clear();
    given.answer_within = 300ms;
    application const console{given};
    visitor const bob{console, s.bob};
    REQUIRE_FALSE(says(bob.get("/services"), "does not answer"));

    // Sessions that were there before say nothing any more, and neither do new ones.
    to_payments.freeze(true);
    to_shipping.freeze(true);
    auto const first = bob.get("/saga", {{"key", "1"}});
    CHECK(first.status == 200);
    CHECK(says(first, "its database is away: shown as its home knows it"));
    CHECK(says(first, "<b>payments</b> does not answer: the database gave no answer within"));
    CHECK(says(first, "<b>shipping</b> does not answer"));
    application const started_now{given};
    CHECK(says(visitor{started_now, s.bob}.get("/services"),
               "<b>payments</b> does not answer: the database took no connection within"));
    CHECK(says(visitor{started_now, s.bob}.get("/"), ">1</code>"));

    to_payments.freeze(false);
    to_shipping.freeze(false);
    CHECK(wait_until([&] { return !says(bob.get("/services"), "does not answer"); }));
}

TEST_CASE("who asks next after an outage finds the database there, though nobody has asked in between")
{
    console_shop s;
    s.park_charge("1");
    auto const& orders = s.at("orders").db;
    database_wire to_orders{orders.url()};
    auto given = s.given();
    given.services[0].url = to_orders.url();
    given.answer_within = 300ms;
    application const console{given};
    visitor const bob{console, s.bob};
    auto const asked = [&] {
        return nlohmann::json::parse(bob.get("/sagas.json", {{"home", "orders"}, {"status", "stuck"}}).body);
    };
    REQUIRE(wait_until([&] { return asked()["sagas"].size() == 1; }));  // a slow machine may need longer at first
    std::string const ours = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = "
                             "'skald/console'";
    auto const before = orders.one("SELECT pid " + ours);

    to_orders.freeze(true);
    CHECK(asked()["missing"] == nlohmann::json::array({"orders"}));
    to_orders.freeze(false);
    REQUIRE(wait_until([&] { return orders.one("SELECT count(*) " + ours + " AND pid <> " + before) == "1"; }));
    CHECK(wait_until([&] { return asked()["sagas"].size() == 1; }));
}

TEST_CASE("an act is not tried where the database is frozen already")
{
    console_shop s;
    s.order("1");
    database_wire to_orders{s.at("orders").db.url()};
    auto given = s.given();
    given.operating[0].url = to_orders.url();
    given.answer_within = 300ms;
    application const console{given};
    visitor const ada{console, s.ada};
    auto const pause = [&] {
        return ada.post("/act", {{"verb", "pause"}, {"saga", "orders\n\n1"}, {"reason", "a test"}, {"confirm", "1"}});
    };
    CHECK(says(pause(), "pause: 1 of 1 done"));
    to_orders.freeze(true);
    auto const said = pause();
    CHECK(says(said, "not tried: "));
    CHECK_FALSE(says(said, "may have been done"));
    CHECK_FALSE(says(said, "in the audit"));
    to_orders.freeze(false);
    CHECK(s.at("orders").db.one("SELECT count(*) FROM skald.audit") == "1");
}
