// The operator's command line over three running services: every verb of `skald saga` and `skald parked`.
#include "support/shop.hpp"

#include <thread>

using namespace skald::testing;

namespace {

struct said
{
    int code{};
    std::string text;
    json object() const { return json::parse(text); }
    bool has(std::string const& part) const { return text.find(part) != std::string::npos; }
};

said skald_tool(std::string const& database_url, std::vector<std::string> words)
{
    service_process tool{SKALD_TOOL, std::move(words), {{"DATABASE_URL", database_url}, {"PATH", "/usr/bin:/bin"}}};
    auto const end = tool.run();
    return {end.code.value_or(-1), tool.log()};
}

class operated_shop : public shop
{
public:
    /// `skald ...` at the sagas' home.
    said at_home(std::vector<std::string> words) { return skald_tool(orders_db.url(), std::move(words)); }

    bool has_order(fresh_database& database, std::string const& action)
    {
        return eventually([&] { return database.count("skald.control WHERE action = '" + action + "'") > 0; });
    }

    /// Until the saga is so; what waits for its next attempt does not have to wait.
    bool ends_soon(std::string const& key, std::string const& expected)
    {
        return eventually([&] {
            for (auto* database : databases())
                database->ask("UPDATE skald.outbox SET due_at = clock_timestamp() WHERE due_at > clock_timestamp()");
            return status(key) == expected;
        });
    }

    void stick(std::string const& key)
    {
        orders_db.ask("ALTER TABLE customer_order ALTER status TYPE text, ADD CONSTRAINT out_of_order CHECK (status <> 'confirmed')");
        REQUIRE(order(key).status == 202);
        REQUIRE(ends_soon(key, "stuck"));
        orders_db.ask("ALTER TABLE customer_order DROP CONSTRAINT out_of_order");
    }
};

}  // namespace

TEST_CASE("skald saga cancel: before the pivot everything is refunded, in three services")
{
    operated_shop s;
    s.payments.set_arguments({"--lanes", "1"});  // one after the other: first the charge, then the order
    s.open();
    s.payments.terminate();
    REQUIRE(s.order("k").status == 202);
    auto const cancelled = s.at_home({"saga", "cancel", "k", "--reason", "the customer called", "--by", "eve", "--json"});
    CHECK_MESSAGE(cancelled.code == 0, cancelled.text);
    CHECK(cancelled.object()["told"] == json{"orders", "payments", "shipping"});
    REQUIRE(s.has_order(s.shipping_db, "cancel"));
    s.payments.start();
    CHECK(s.ends("k", "compensated"));
    CHECK(s.saga("k")["reason"] == "the customer called");
    CHECK(s.payments_db.ask("SELECT kind FROM charge ORDER BY 1") == table{{"charge"}, {"refund"}});
    REQUIRE(s.has_order(s.payments_db, "cancel"));
    for (auto* database : s.databases())
        CHECK(database->ask("SELECT verb, actor LIKE 'eve as %', key FROM skald.audit") == table{{"saga cancel", "t", "k"}});
    s.check_books(100001, 1000);

    auto const again = s.at_home({"saga", "cancel", "k"});
    CHECK(again.code == 1);
    CHECK(again.has("has ended: it is compensated"));
    s.close_in_order();
}

TEST_CASE("skald saga cancel against running pivots: each saga completes or goes back, never both")
{
    operated_shop s;
    s.open();
    int refused = 0;
    for (int i = 0; i < 18; ++i) {
        auto const key = "race-" + std::to_string(i);
        // Held back while the order is given: nobody; the pivot, which then meets it in the same instant; the step before.
        auto* const held = i % 3 == 0 ? nullptr : i % 3 == 1 ? &s.shipping : &s.payments;
        if (held != nullptr) held->kill(SIGSTOP);
        REQUIRE(s.order(key).status == 202);
        auto const cancelled = s.at_home({"saga", "cancel", key, "--json"});
        if (held == &s.payments)
            CHECK(eventually([&] { return s.shipping_db.count("skald.control WHERE key = '" + key + "'") == 1; }));
        if (held != nullptr) held->kill(SIGCONT);
        CHECK_MESSAGE((cancelled.code == 0) != cancelled.object().contains("refused"), cancelled.text);
        refused += cancelled.code;
    }
    REQUIRE(s.all_end());
    MESSAGE(refused << " of 18 refused, " << s.orders_db.count("skald.saga WHERE status = 'completed'") << " completed");
    CHECK(s.orders_db.count("skald.saga WHERE status = 'compensated'") >= 6);
    REQUIRE(s.outboxes_empty());
    s.check_books(100001, 1000);
    CHECK(s.parked_in_all() == 0);
    // Those that were cancelled in vain say so.
    for (auto const& row : s.orders_db.ask("SELECT s.key FROM skald.saga s JOIN skald.control c USING (scope, key) WHERE "
                                           "s.status = 'completed'"))
        CHECK(s.at_home({"saga", "show", row.at(0)}).has("too late: arrange-shipping, the pivot, had completed"));
    s.close_in_order();
}

TEST_CASE("skald saga pause, show, list and resume")
{
    operated_shop s;
    s.open();
    s.payments.terminate();
    REQUIRE(s.order("k").status == 202);
    CHECK(s.at_home({"saga", "pause", "k", "--reason", "looking"}).code == 0);
    s.payments_db.ask("INSERT INTO skald.control (scope, key, action) VALUES ('', 'k', 'pause')");
    s.payments.start();
    REQUIRE(eventually([&] { return s.payments_db.count("skald.outbox WHERE due_at > now()") == 1; }));
    CHECK(s.payments_db.count("charge") == 0);

    auto const shown = s.at_home({"saga", "show", "k"});
    CHECK(shown.code == 0);
    CHECK_MESSAGE(shown.has("running: waiting for payments to take charge-payment since "), shown.text);
    CHECK(shown.has("It is paused by "));
    CHECK(s.at_home({"saga", "show", "k", "--json"}).object()["order"]["reason"] == "looking");
    CHECK_MESSAGE(!s.saga("k").contains("order"), "customers are not told who the operators are");

    CHECK(s.at_home({"saga", "resume", "k"}).code == 0);
    CHECK(s.ends("k", "completed"));
    REQUIRE(s.order("second").status == 202);
    REQUIRE(s.ends("second", "completed"));
    auto const page = s.at_home({"saga", "list", "--limit", "1", "--json"}).object();
    CHECK(page["sagas"][0]["key"] == "k");
    auto const next = s.at_home({"saga", "list", "--limit", "1", "--json", "--after", page["next"]}).object();
    CHECK(next["sagas"][0]["key"] == "second");
    CHECK(next["next"].is_null());
    CHECK(s.at_home({"saga", "list", "--status", "stuck", "--json"}).object()["sagas"].empty());
    CHECK(s.at_home({"saga", "list", "--definition", "place-order", "--older-than", "1h", "--json"}).object()["sagas"].empty());
    s.close_in_order();
}

TEST_CASE("skald saga retry: what was stuck goes on when the cause is mended")
{
    operated_shop s;
    s.open();
    s.stick("k");
    auto const shown = s.at_home({"saga", "show", "k"});
    CHECK_MESSAGE(shown.has("stuck: confirm-order was parked at orders after 8 attempts"), shown.text);
    CHECK(shown.has("`skald saga retry k`"));
    auto const cancelled = s.at_home({"saga", "cancel", "k", "--json"});
    CHECK(cancelled.code == 1);
    CHECK(cancelled.object()["refused"].get<std::string>().find("past the pivot") != std::string::npos);
    CHECK(s.at_home({"saga", "list"}).has("stuck"));
    CHECK(s.at_home({"saga", "retry", "k"}).code == 0);
    CHECK(s.ends("k", "completed"));
    CHECK(s.parked_in_all() == 0);
    CHECK(s.at_home({"saga", "retry", "k"}).code == 1);
    s.check_books(100001, 1000);
    s.close_in_order();
}

TEST_CASE("skald parked list, show and replay: once, whatever is replayed twice")
{
    operated_shop s;
    s.open();
    s.stick("k");
    auto const list = s.at_home({"parked", "list", "--reason", "attempts_exhausted", "--key", "k", "--json"}).object();
    REQUIRE(list["parked"].size() == 1);
    auto const id = list["parked"][0]["id"].dump();
    auto const shown = s.at_home({"parked", "show", id});
    CHECK_MESSAGE(shown.has("`skald parked replay " + id + "`"), shown.text);
    CHECK(shown.has("x-idempotency-key: k:confirm-order"));
    CHECK(shown.has("\"sku\":\"lamp\""));

    auto const replayed = s.at_home({"parked", "replay", "--all", "--by", "eve", "--json"});
    CHECK_MESSAGE(replayed.code == 0, replayed.text);
    CHECK(replayed.object()["replayed"] == json{std::stoi(id)});
    auto const again = s.at_home({"parked", "replay", id});
    CHECK(again.code == 1);
    CHECK(again.has("it was replayed or dropped already"));
    CHECK(s.ends("k", "completed"));
    CHECK(s.orders_db.ask("SELECT verb, key FROM skald.audit") == table{{"parked replay", "k"}});
    CHECK(s.orders_db.value("SELECT status::text || attempts FROM skald.idempotency WHERE step = 'confirm-order'") == "completed1");
    s.check_books(100001, 1000);
    s.close_in_order();
}

TEST_CASE("skald parked drop asks for a reason, and for --yes where more than one would be gone")
{
    operated_shop s;
    s.open();
    s.orders_db.ask("INSERT INTO skald.parked (reason, body, fingerprint) SELECT 'malformed', 'x', sha256(n::text::bytea) FROM "
                    "generate_series(1, 3) n");
    CHECK(s.at_home({"parked", "drop", "1"}).code == 2);
    CHECK(s.at_home({"parked", "drop", "1", "2", "--reason", "tests"}).code == 2);
    CHECK(s.orders_db.count("skald.parked") == 3);
    CHECK(s.at_home({"parked", "drop", "1", "--reason", "tests"}).code == 0);
    auto const dropped = s.at_home({"parked", "drop", "1", "2", "3", "--reason", "tests", "--yes", "--json"});
    CHECK(dropped.code == 1);
    CHECK(dropped.object()["dropped"] == json{2, 3});
    CHECK(dropped.object()["refused"].size() == 1);
    CHECK(s.orders_db.count("skald.parked") == 0);
    CHECK(s.orders_db.count("skald.audit WHERE verb = 'parked drop' AND detail->>'why' = 'tests'") == 3);
    s.close_in_order();
}

TEST_CASE("wrong usage is exit code 2, a refusal or a failure 1, each with a sentence")
{
    fresh_database empty{"empty"};
    auto const url = empty.url();
    for (auto const& words : std::vector<std::vector<std::string>>{{"saga"},
                                                                   {"saga", "cancel"},
                                                                   {"saga", "list", "--status", "lost"},
                                                                   {"saga", "list", "--older-than", "soon"},
                                                                   {"parked", "show", "x"},
                                                                   {"parked", "list", "--reason", "other"},
                                                                   {"parked", "replay"},
                                                                   {"parked", "replay", "1", "--all"},
                                                                   {"saga", "show", "k"}}) {
        auto const answer = skald_tool(url, words);
        CHECK_MESSAGE(answer.code == 2, words.back(), ": ", answer.text);
        CHECK(!answer.text.empty());
    }
    skald_tool(url, {"migrate", "--service", "orders"});
    CHECK(skald_tool(url, {"saga", "show", "k", "--json"}).object()["refused"] ==
          "no saga k was started here: ask the database of its home");
    CHECK(skald_tool(url, {"saga", "show", "k"}).code == 1);
    CHECK(skald_tool(url, {"saga", "list"}).code == 0);
    CHECK(skald_tool(url, {"saga", "list", "--after", "7"}).code == 2);
    CHECK(skald_tool(url, {"parked", "show", "7"}).code == 1);
    CHECK(skald_tool(url, {"parked", "replay", "--all"}).code == 0);
    CHECK(skald_tool("postgresql://nobody@127.0.0.1:1/nowhere", {"saga", "list"}).code == 1);
}
