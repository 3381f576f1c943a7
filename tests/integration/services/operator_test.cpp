// The operator's command line over three running services: every verb of `skald saga` and `skald parked`.
#include "support/shop.hpp"

#include <thread>

using namespace skald::test;

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
        return wait_until([&] { return database.count("skald.control WHERE action = '" + action + "'") > 0; });
    }

    /// Until the saga is so; what waits for its next attempt does not have to wait.
    bool ends_soon(std::string const& key, std::string const& expected)
    {
        return wait_until([&] {
            for (auto* database : databases())
                database->ask("UPDATE skald.outbox SET due_at = clock_timestamp() WHERE due_at > clock_timestamp()");
            return status(key) == expected;
        });
    }

    void stick(std::string const& key)
    {
        orders_db.ask("ALTER TABLE customer_order ALTER status TYPE text, ADD CONSTRAINT out_of_order CHECK (status <> "
                      "'confirmed')");
        REQUIRE(order(key).status == 202);
        REQUIRE(ends_soon(key, "stuck"));
        orders_db.ask("ALTER TABLE customer_order DROP CONSTRAINT out_of_order");
    }
};

/// A line of `skald parked export` as a message, from what docs/protocol.md says of it and nothing else.
raw_message message_of(std::string const& line)
{
    auto const recorded = json::parse(line);
    raw_message m;
    m.destination = recorded["destination"];
    m.set_id(recorded["message_id"]);
    m.set_type(recorded["type"]);
    m.properties.content_type = keep(recorded["content_type"]);
    m.properties._flags |= AMQP_BASIC_CONTENT_TYPE_FLAG;
    for (auto const& [name, value] : recorded["headers"].items()) m.set(name, value.get<std::string>());
    m.body = recorded["body"];
    return m;
}

}  // namespace

TEST_CASE("skald saga cancel: before the pivot everything is refunded, in three services")
{
    operated_shop s;
    s.payments.set_arguments({"--lanes", "1"});  // one after the other: first the charge, then the order
    s.open();
    s.payments.terminate();
    REQUIRE(s.order("k").status == 202);
    auto const cancelled =
        s.at_home({"saga", "cancel", "k", "--reason", "the customer called", "--by", "eve", "--json"});
    CHECK_MESSAGE(cancelled.code == 0, cancelled.text);
    CHECK(cancelled.object()["told"] == json{"orders", "payments", "shipping"});
    REQUIRE(s.has_order(s.shipping_db, "cancel"));
    s.payments.start();
    CHECK(s.ends("k", "compensated"));
    CHECK(s.saga("k")["reason"].is_null());
    CHECK(s.at_home({"saga", "show", "k", "--json"}).object()["reason"] == "the customer called");
    CHECK(s.payments_db.ask("SELECT kind FROM charge ORDER BY 1") == table{{"charge"}, {"refund"}});
    REQUIRE(s.has_order(s.payments_db, "cancel"));
    for (auto* database : s.databases())
        CHECK(database->ask("SELECT verb, actor LIKE 'eve as %', key FROM skald.audit") ==
              table{{"saga cancel", "t", "k"}});
    s.check_books(100001, 1000);

    auto const again = s.at_home({"saga", "cancel", "k"});
    CHECK(again.code == 1);
    CHECK(again.has("has ended: it is compensated"));
    s.close_in_order();
}

TEST_CASE("skald saga cancel against running pivots: each saga completes or compensates, never both")
{
    operated_shop s;
    s.open();
    int refused = 0;
    for (int i = 0; i < 18; ++i) {
        auto const key = "race-" + std::to_string(i);
        // Held back while the order is given: nobody; the pivot, which then meets it in the same
        // instant; the step before.
        auto* const held = i % 3 == 0 ? nullptr : i % 3 == 1 ? &s.shipping : &s.payments;
        if (held != nullptr) held->kill(SIGSTOP);
        REQUIRE(s.order(key).status == 202);
        auto const cancelled = s.at_home({"saga", "cancel", key, "--json"});
        if (held == &s.payments)
            CHECK(wait_until([&] { return s.shipping_db.count("skald.control WHERE key = '" + key + "'") == 1; }));
        if (held != nullptr) held->kill(SIGCONT);
        CHECK_MESSAGE((cancelled.code == 0) != cancelled.object().contains("refused"), cancelled.text);
        refused += cancelled.code;
    }
    REQUIRE(s.all_end());
    MESSAGE(refused << " of 18 refused, " << s.orders_db.count("skald.saga WHERE status = 'completed'")
                    << " completed");
    CHECK(s.orders_db.count("skald.saga WHERE status = 'compensated'") >= 6);
    REQUIRE(s.outboxes_empty());
    s.check_books(100001, 1000);
    CHECK(s.parked_in_all() == 0);
    // Those that were cancelled in vain say so.
    for (auto const& row :
         s.orders_db.ask("SELECT s.key FROM skald.saga s JOIN skald.control c USING (scope, key) WHERE "
                         "s.status = 'completed'"))
        CHECK(s.at_home({"saga", "show", row.at(0)})
                  .has("too late: arrange-shipping, the pivot, completed before it was there"));
    s.close_in_order();
}

TEST_CASE("skald saga pause holds a saga until resume, and show and list tell of it")
{
    operated_shop s;
    s.open();
    s.payments.terminate();
    REQUIRE(s.order("k").status == 202);
    CHECK(s.at_home({"saga", "pause", "k", "--reason", "looking"}).code == 0);
    s.payments_db.ask("INSERT INTO skald.control (scope, key, home, action) VALUES ('', 'k', 'orders', 'pause')");
    s.payments.start();
    REQUIRE(wait_until([&] { return s.payments_db.count("skald.outbox WHERE due_at > now()") == 1; }));
    CHECK(s.payments_db.count("charge") == 0);

    auto const shown = s.at_home({"saga", "show", "k"});
    CHECK(shown.code == 0);
    CHECK_MESSAGE(shown.has("running: waiting for payments to take charge-payment since "), shown.text);
    CHECK(shown.has("It is paused by "));
    CHECK(s.at_home({"saga", "show", "k", "--json"}).object()["command"]["reason"] == "looking");
    CHECK_MESSAGE(!s.saga("k").contains("command"), "customers are not told who the operators are");

    CHECK(s.at_home({"saga", "resume", "k"}).code == 0);
    CHECK(s.ends("k", "completed"));
    REQUIRE(s.order("second").status == 202);
    REQUIRE(s.ends("second", "completed"));
    auto const page = s.at_home({"saga", "list", "--limit", "1", "--json"}).object();
    CHECK(page["sagas"][0]["key"] == "second");  // it ended last
    auto const next = s.at_home({"saga", "list", "--limit", "1", "--json", "--after", page["next"]}).object();
    CHECK(next["sagas"][0]["key"] == "k");
    CHECK(next["next"].is_null());
    CHECK(s.at_home({"saga", "list", "--status", "stuck", "--json"}).object()["sagas"].empty());
    CHECK(s.at_home({"saga", "list", "--definition", "place-order", "--older-than", "1h", "--json"})
              .object()["sagas"]
              .empty());
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
    CHECK(s.orders_db.value("SELECT status::text || attempts FROM skald.idempotency WHERE step = 'confirm-order'") ==
          "completed1");
    s.check_books(100001, 1000);
    s.close_in_order();
}

TEST_CASE("skald parked export: what is parked here is delivered in another system, and has its effect there once")
{
    std::string line;
    {
        operated_shop production;
        production.open();
        production.stick("k");
        auto const exported = production.at_home({"parked", "export", "k:confirm-order"});
        REQUIRE_MESSAGE(exported.code == 0, exported.text);
        line = exported.text;
        auto const parked = json::parse(line)["parked"];
        CHECK(parked["reason"] == "attempts_exhausted");
        CHECK(parked["error"].get<std::string>().find("out_of_order") != std::string::npos);
        CHECK(parked["record"]["status"] == "parked");
        for (auto const& same : std::vector<std::vector<std::string>>{{parked["id"].dump()},
                                                                      {"--all"},
                                                                      {"--key", "k"},
                                                                      {"--step", "confirm-order", "--scope", ""},
                                                                      {"--all", "--json"}}) {
            std::vector<std::string> words{"parked", "export"};
            words.insert(words.end(), same.begin(), same.end());
            CHECK_MESSAGE(production.at_home(words).text == line, same.front());
        }
        CHECK_MESSAGE(production.parked_in_all() == 1, "it stays parked");
        production.close_in_order();
    }
    operated_shop staging;
    staging.open();
    staging.orders_db.ask(
        "CREATE TABLE confirmation (id text);"
        "CREATE FUNCTION confirm() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO confirmation VALUES (NEW.id); RETURN NEW; END $$;"
        "CREATE TRIGGER confirmed AFTER UPDATE ON customer_order FOR EACH ROW EXECUTE FUNCTION confirm();"
        "INSERT INTO customer_order (id, customer, sku, quantity, cents) SELECT b->>'id', 'ann', 'lamp', 1, 100 "
        "FROM (SELECT $body$" +
        json::parse(line)["body"].get<std::string>() + "$body$::jsonb AS b) AS recorded");
    amqp_hands hands{broker()};
    for (int i = 0; i < 3; ++i) hands.send(message_of(line));
    CHECK(wait_until([&] { return staging.orders_db.count("confirmation") > 0; }));
    CHECK(staging.all_acked());
    staging.close_in_order();
    CHECK(staging.orders_db.count("confirmation") == 1);
    CHECK(staging.orders_db.ask("SELECT status FROM customer_order") == table{{"confirmed"}});
    CHECK(staging.orders_db.ask("SELECT key, step, status FROM skald.idempotency") ==
          table{{"k", "confirm-order", "completed"}});
    // And who looks there sees that this saga was started elsewhere.
    CHECK(staging.orders_db.ask("SELECT DISTINCT reason, key FROM skald.parked") == table{{"unknown_saga", "k"}});
}

TEST_CASE("skald parked export says what is not there, and prints the rest")
{
    operated_shop s;
    s.open();
    s.orders_db.ask(
        "INSERT INTO skald.parked (key, step, reason, body, fingerprint) SELECT 'k' || n % 2, 's', 'malformed', "
        "decode('ff', 'hex'), sha256(n::text::bytea) FROM generate_series(1, 1001) n");
    auto const all = s.at_home({"parked", "export", "--all"});
    CHECK(all.code == 0);
    CHECK_MESSAGE(std::ranges::count(all.text, '\n') == 1'001, "several pages");
    CHECK(json::parse(all.text.substr(0, all.text.find('\n')))["body_base64"] == "/w==");
    CHECK(std::ranges::count(s.at_home({"parked", "export", "k1:s", "2"}).text, '\n') == 502);
    CHECK(std::ranges::count(s.at_home({"parked", "export", "k1:s", "--scope", ""}).text, '\n') == 501);
    CHECK(s.at_home({"parked", "export", "k1:s", "--scope", "ann"}).code == 1);

    auto const missing = s.at_home({"parked", "export", "4711", "7"});
    CHECK(missing.code == 1);
    CHECK(missing.has("there is no parked delivery 4711 here"));
    CHECK(missing.has("\"id\":7,"));
    auto const nothing = s.at_home({"parked", "export", "k7:s", "--json"});
    CHECK(nothing.code == 1);
    CHECK(nothing.object()["refused"] == "nothing is parked here of k7:s");
    CHECK(s.at_home({"parked", "export", "--reason", "mismatch"}).code == 1);
    for (auto const& words : std::vector<std::vector<std::string>>{
             {}, {"k1"}, {"7", "--all"}, {"7", "--scope", ""}, {"--all", "--key", "k1"}}) {
        auto whole = words;
        whole.insert(whole.begin(), {"parked", "export"});
        CHECK_MESSAGE(s.at_home(whole).code == 2, whole.back());
    }
    s.close_in_order();
}

TEST_CASE("skald parked drop asks for a reason, and for --yes where more than one would be gone")
{
    operated_shop s;
    s.open();
    s.orders_db.ask(
        "INSERT INTO skald.parked (reason, body, fingerprint) SELECT 'malformed', 'x', sha256(n::text::bytea) FROM "
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
    CHECK(s.at_home({"parked", "replay", "--all", "--yes"}).code == 2);
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
                                                                   {"parked", "replay", "99999999999999999999"},
                                                                   {"parked", "show", "0"},
                                                                   {"saga", "show", "k"}}) {
        auto const answer = skald_tool(url, words);
        CHECK_MESSAGE(answer.code == 2, words.back(), ": ", answer.text);
        CHECK(!answer.text.empty());
    }
    auto const nameless = skald_tool(url, {"migrate"});
    CHECK(nameless.code == 2);
    CHECK_MESSAGE(nameless.has("no service owns the database " + url.substr(url.rfind('/') + 1) + " at "),
                  nameless.text);
    CHECK(nameless.has("--service NAME"));
    CHECK(
        skald_tool(url, {"saga", "list"}).has(" has no schema `skald`, or an old one: if DATABASE_URL is to name it"));
    CHECK(skald_tool(url, {"doctor"}).has(" is none of Skald's: it has no schema `skald`"));
    {
        pqxx::connection others{url};
        pqxx::nontransaction{others}.exec(
            "CREATE SCHEMA skald CREATE TABLE migration (version int) CREATE TABLE poem (t text)");
        for (auto const& words :
             std::vector<std::vector<std::string>>{{"migrate", "--service", "orders"}, {"saga", "list"}}) {
            auto const answer = skald_tool(url, words);
            CHECK(answer.code == 2);
            CHECK_MESSAGE(answer.has(" is not Skald's: it has migration, poem. "), answer.text);
        }
        CHECK(skald_tool(url, {"doctor"}).has("it has a schema `skald` of somebody else's, with migration, poem"));
        pqxx::nontransaction{others}.exec("DROP SCHEMA skald CASCADE");
    }
    skald_tool(url, {"migrate", "--service", "orders"});
    auto const here = "no saga k was started here, in the database of orders, " + url.substr(url.rfind('/') + 1) +
                      ": ask the database of its home";
    CHECK(skald_tool(url, {"saga", "show", "k"}).has(here));
    CHECK(skald_tool(url, {"saga", "list"}).has("no saga here matches: this is the database of orders, "));
    CHECK(skald_tool(url, {"parked", "list"}).has("no parked delivery here matches: this is the database of orders, "));
    empty.ask("INSERT INTO skald.idempotency (scope, key, step, home) VALUES ('', 'k', 'charge', 'shops')");
    for (auto const& words : std::vector<std::vector<std::string>>{
             {"saga", "show", "k"},
             {"saga", "pause", "k"},
             {"saga", "cancel", "k"},
             {"saga", "retry", "k"},
             {"saga", "signal", "k", "charge", "--body", "{}"},
             {"saga", "close", "k", "--as", "completed", "--reason", "why", "--yes"}}) {
        auto const refused = skald_tool(url, words);
        CHECK(refused.code == 1);
        CHECK_MESSAGE(refused.has(here + ", shops"), refused.text);
    }
    CHECK(skald_tool(url, {"saga", "list"}).code == 0);
    CHECK(skald_tool(url, {"saga", "list", "--after", "7"}).code == 2);
    CHECK(skald_tool(url, {"saga", "close", "k", "--as", "completed", "--reason", "why"}).has("--yes"));
    CHECK(skald_tool(url, {"saga", "close", "k", "--as", "running", "--reason", "why", "--yes"}).code == 2);
    CHECK(skald_tool(url, {"parked", "show", "7"}).code == 1);
    CHECK(skald_tool(url, {"parked", "replay", "--all"}).code == 0);
    CHECK(skald_tool("postgresql://nobody@127.0.0.1:1/nowhere", {"saga", "list"}).code == 1);
}
