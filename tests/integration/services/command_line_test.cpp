// `skald purge`, `skald outbox status` and `skald doctor`, as an operator runs them.
#include "support/shop.hpp"

using namespace skald::test;

namespace {

struct told
{
    int code{};
    std::string text;
    json object() const { return json::parse(text.substr(text.find('{'))); }
};

told run_skald(fresh_database const& database, std::vector<std::string> const& words, bool with_broker = true)
{
    auto variables = shop::variables(database);
    if (!with_broker) variables.erase("AMQP_URL");
    service_process command{SKALD_TOOL, words, variables};
    command.start();
    auto const end = command.wait();
    return {end.code.value_or(-1), command.log()};
}

std::string level(json const& doctor, std::string const& check)
{
    std::string worst = "none";
    for (auto const& one : doctor["checks"])
        if (one["check"] == check) worst = one["level"];
    return worst;
}

}  // namespace

TEST_CASE("skald purge empties every service of sagas that ended long ago, and says what it waits for")
{
    shop s;
    // Theirs would take some of what is counted here, at a time of their own.
    for (auto* service : {&s.orders, &s.payments, &s.shipping}) service->set_variable("SKALD_PURGE", "off");
    s.open();
    for (int i = 0; i < 5; ++i)
        REQUIRE(s.order("k" + std::to_string(i), {.sku = i == 0 ? "rare" : "lamp"}).status == 202);
    REQUIRE(s.all_end());
    REQUIRE(s.outboxes_empty());
    s.check_books(100001, 1000);
    for (auto* database : s.databases())
        database->ask("UPDATE skald.idempotency SET created_at = created_at - interval '40 days',"
                      " updated_at = updated_at - interval '40 days';"
                      "UPDATE skald.saga SET finished_at = finished_at - interval '40 days'");
    CHECK(run_skald(s.orders_db, {"purge", "--older-than", "50"}).text.find("purged 0 sagas") == 0);

    auto const preview = run_skald(s.orders_db, {"purge", "--dry-run", "--json"});
    CHECK(preview.object()["asked"] == 5);
    CHECK(preview.object()["dry_run"] == true);
    CHECK(s.orders_db.count("skald.saga WHERE expiring IS NOT NULL") == 0);

    auto const asked = run_skald(s.orders_db, {"purge", "--batch", "2", "--json"});
    CHECK(asked.code == 0);
    CHECK(asked.object()["asked"] == 5);
    CHECK(asked.object()["waiting"][0]["sagas"] == 5);
    CHECK(
        wait_until([&] { return s.payments_db.count("skald.ended") == 5 && s.shipping_db.count("skald.ended") == 5; }));
    CHECK(run_skald(s.payments_db, {"purge", "--json"}).object()["expired"] == 5);
    CHECK(run_skald(s.shipping_db, {"purge", "--json"}).object()["expired"] == 5);
    CHECK(wait_until([&] { return s.orders_db.count("skald.saga WHERE expiring = '{}'") == 5; }));
    CHECK(s.order("k1").value_of("Idempotency-Replayed") == "true");

    CHECK(run_skald(s.orders_db, {"purge"}).text.find("purged 5 sagas with all their records") == 0);
    for (auto* database : s.databases())
        for (std::string const table : {"idempotency", "saga", "response", "progress", "ended", "parked"})
            CHECK_MESSAGE(database->count("skald." + table) == 0, table);
    CHECK(s.get("/sagas/k1").status == 404);
    CHECK(s.orders_db.count("customer_order") == 5);
    s.close_in_order();
}

TEST_CASE("the services purge by themselves, without an operator")
{
    shop s;
    s.orders.set_arguments({"--listen", "127.0.0.1:0", "--purge-seconds", "1"});
    for (auto* service : {&s.payments, &s.shipping}) service->set_arguments({"--purge-seconds", "1"});
    s.open();
    REQUIRE(s.order("old").status == 202);
    REQUIRE(s.order("new").status == 202);
    REQUIRE(s.all_end());
    for (auto* database : s.databases())
        database->ask("UPDATE skald.idempotency SET created_at = created_at - interval '40 days',"
                      " updated_at = updated_at - interval '40 days' WHERE key = 'old';"
                      "UPDATE skald.saga SET finished_at = finished_at - interval '40 days' WHERE key = 'old'");
    CHECK(wait_until([&] { return s.orders_db.count("skald.idempotency WHERE key = 'old'") == 0; }));
    for (auto* database : s.databases()) {
        CHECK(database->count("skald.idempotency WHERE key = 'old'") == 0);
        CHECK(database->count("skald.idempotency WHERE key = 'new'") > 0);
    }
    CHECK(s.status("new") == "completed");
    CHECK(s.orders.has_logged("purge.done"));
    s.close_in_order();
}

TEST_CASE("a retention below a day is refused by every program that takes one")
{
    fresh_database database{"orders"};
    auto const answer = run_skald(database, {"purge", "--older-than", "0"});
    CHECK(answer.code == 2);
    CHECK(answer.text.find("a day at least") != std::string::npos);
    CHECK(run_skald(database, {"purge", "--batch", "0"}).code == 2);
}

TEST_CASE("skald outbox status counts by destination and reason, and its exit code says whether that is too much")
{
    shop s;
    s.orders.start();
    s.wait_until_started(s.orders);
    CHECK(s.orders.terminate().code == 0);
    CHECK(run_skald(s.orders_db, {"outbox", "status"}).text.find("the outbox is empty") == 0);
    s.orders_db.ask("SELECT skald.enqueue('mail', 'x', 'k:x', '') FROM generate_series(1, 3);"
                    "SELECT skald.enqueue('bill', 'x', 'k:x', '');"
                    "UPDATE skald.outbox SET error = 'NO_ROUTE', attempts = 7 WHERE id <= 2;"
                    "UPDATE skald.outbox SET created_at = created_at - interval '100 s' WHERE id = 1");
    auto const status = run_skald(s.orders_db, {"outbox", "status", "--json"}).object();
    CHECK(status["rows"] == 4);
    CHECK(status["deferred"] == 2);
    CHECK(status["oldest_seconds"] >= 100);
    CHECK(status["destinations"][0]["destination"] == "mail");
    CHECK(status["destinations"][0]["rows"] == 3);
    CHECK(status["reasons"] ==
          json::parse(R"([{"destination": "mail", "reason": "NO_ROUTE", "rows": 2, "attempts_max": 7}])"));
    CHECK(run_skald(s.orders_db, {"outbox", "status", "--warn-rows", "4"}).code == 0);
    CHECK(run_skald(s.orders_db, {"outbox", "status", "--warn-rows", "3"}).code == 1);
    CHECK(run_skald(s.orders_db, {"outbox", "status", "--warn-age", "3600"}).code == 0);
    CHECK(run_skald(s.orders_db, {"outbox", "status", "--warn-age", "50"}).code == 1);
    CHECK(run_skald(s.orders_db, {"outbox"}).code == 2);
}

TEST_CASE("skald relay --until-empty does not say that all is well while something could not be sent")
{
    shop s;
    s.orders.start();
    s.wait_until_started(s.orders);
    CHECK(s.orders.terminate().code == 0);
    CHECK(run_skald(s.orders_db, {"relay", "--until-empty"}).code == 0);
    s.orders_db.ask("SELECT skald.enqueue('payments', 'skald.x', 'k:x', '');"
                    "SELECT skald.enqueue('payments', 'skald.x', 'k:y', '', delay => '1 h');"
                    "SELECT skald.enqueue('nobody-is-called-so', 'skald.x', 'k:x', '')");
    // Tried now; and put off, when it is not due yet.
    for (int i = 0; i < 2; ++i) {
        auto const told = run_skald(s.orders_db, {"relay", "--until-empty", "--json"});
        CHECK(told.code == 1);
        CHECK(told.object()["unsent"] == 2);
    }
}

TEST_CASE("skald doctor finds nothing wrong with a healthy service, and names what is wrong with an ill one")
{
    shop s;
    auto const bare = run_skald(s.orders_db, {"doctor", "--json"});
    CHECK(bare.code == 1);
    CHECK(level(bare.object(), "migrations") == "problem");

    s.start_all();
    auto const well = run_skald(s.orders_db, {"doctor", "--json"});
    CHECK_MESSAGE(well.code == 0, well.text);
    CHECK(well.object()["service"] == "orders");
    CHECK(level(well.object(), "queue") == "ok");
    CHECK(level(well.object(), "pooler") == "ok");
    CHECK(level(well.object(), "publishing") == "ok");
    CHECK(level(run_skald(s.orders_db, {"doctor", "--json"}, false).object(), "broker") == "warning");

    s.orders_db.ask(
        "INSERT INTO skald.parked (reason, body, fingerprint) VALUES ('malformed', '', sha256(''));"
        "SELECT skald.enqueue('x', 'x', 'x', '', delay => '1 h');"
        "UPDATE skald.outbox SET created_at = created_at - interval '1 h', attempts = 1, error = '312 "
        "NO_ROUTE: its queue is not bound';"
        "SELECT skald.move_to_unrouted(ARRAY[skald.enqueue('trips', 'booked', 'k', '')], ARRAY['312 NO_ROUTE']);"
        "UPDATE skald.migration SET checksum = sha256('') WHERE name = '0002_guard'");
    CHECK(s.orders.terminate().code == 0);
    amqp_hands{broker()}.delete_queue("skald.orders.parked");
    auto const ill = run_skald(s.orders_db, {"doctor", "--json"});
    CHECK(ill.code == 1);
    for (std::string const check : {"migrations", "queue"})
        CHECK_MESSAGE(level(ill.object(), check) == "problem", check);
    for (std::string const check : {"parked", "outbox", "events"})
        CHECK_MESSAGE(level(ill.object(), check) == "warning", check);
    CHECK(ill.text.find("NO_ROUTE: no queue is bound for `trips`") != std::string::npos);
    CHECK(ill.text.find("skald.orders.parked does not exist") != std::string::npos);
    CHECK(ill.text.find("1 to x: 312 NO_ROUTE: its queue is not bound") != std::string::npos);
}

TEST_CASE("skald doctor names each of Skald's tables that is not as its migrations made it, and says how")
{
    fresh_database db{"schema"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    CHECK(level(run_skald(db, {"doctor", "--json"}, false).object(), "schema") == "ok");
    db.ask("CREATE FUNCTION public.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
           "CREATE TRIGGER spy BEFORE INSERT ON skald.outbox FOR EACH ROW EXECUTE FUNCTION public.nothing();"
           "CREATE RULE swallow AS ON INSERT TO skald.audit DO INSTEAD NOTHING;"
           "ALTER TABLE skald.saga ENABLE ROW LEVEL SECURITY; ALTER TABLE skald.control FORCE ROW LEVEL SECURITY;"
           "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'skald.outbox_due'::regclass;"
           "REVOKE INSERT, DELETE ON skald.parked FROM current_user");
    auto const once = db.ask(
        "SELECT conname FROM pg_constraint WHERE connamespace = 'skald'::regnamespace AND contype IN ('p', 'u')");
    db.ask("DO $$ DECLARE c pg_constraint; BEGIN FOR c IN SELECT * FROM pg_constraint WHERE connamespace = "
           "'skald'::regnamespace AND contype IN ('p', 'u') LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', "
           "c.conrelid::regclass, c.conname); END LOOP; END $$");
    auto const ill = run_skald(db, {"doctor", "--json"}, false);
    CHECK(ill.code == 1);
    CHECK(level(ill.object(), "schema") == "problem");
    CHECK(once.size() >= 16);
    for (auto const& constraint : once)
        CHECK_MESSAGE(ill.text.find("lacks the constraint " + constraint.at(0)) != std::string::npos, constraint.at(0));
    for (std::string const said : {"skald.outbox has the trigger spy", "skald.audit has the rule swallow",
                                   "skald.saga has row level security", "skald.control has FORCE ROW LEVEL SECURITY",
                                   "skald.outbox has the index skald.outbox_due, which is not valid"})
        CHECK_MESSAGE(ill.text.find(said) != std::string::npos, said, ": ", ill.text);
}

TEST_CASE("skald doctor names the tables that its role may not write")
{
    fresh_database db{"schema"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    service_process command{
        SKALD_TOOL, {"doctor"}, {{"DATABASE_URL", db.url() + "?options=-crole%3Dpg_read_all_data"}}};
    command.start();
    CHECK(command.wait().code == 0);
    CHECK_MESSAGE(command.log().find("the role pg_read_all_data lacks ") != std::string::npos, command.log());
    CHECK_MESSAGE(command.log().find("DELETE, INSERT, UPDATE on skald.saga") != std::string::npos, command.log());
}

TEST_CASE("skald doctor names a session that keeps rows of users' tables locked")
{
    fresh_database db{"locks"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    db.ask("CREATE TABLE wallet (cents int)");
    pqxx::connection c{db.url()};
    pqxx::work forgotten{c};
    forgotten.exec("LOCK TABLE wallet IN EXCLUSIVE MODE");
    auto const pid = std::to_string(c.backendpid());
    told seen;
    CHECK(wait_until([&] {
        seen = run_skald(db, {"doctor"}, false);
        return seen.text.find("session " + pid) != std::string::npos;
    }));
    CHECK_MESSAGE(seen.text.find("has held locks on wallet for ") != std::string::npos, seen.text);
}

TEST_CASE("skald doctor counts the sagas of which a step was not undone, since its record was gone")
{
    fresh_database db{"undone"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    db.ask("INSERT INTO skald.saga (key, scope, definition, data, itinerary) SELECT 'k' || n, '', 'd', '{}', 'i' FROM "
           "generate_series(1, 4) AS n;"
           "INSERT INTO skald.progress (scope, key, step, service, status, attempts, error, at) VALUES "
           "('', 'k1', 'charge', 'payments', 'completed', 1, NULL, now()),"
           "('', 'k1', 'charge.compensate', 'payments', 'cancelled', 1, 'nothing to undo', now()),"
           "('', 'k2', 'charge', 'payments', 'completed', 1, NULL, now()),"
           "('', 'k2', 'charge.compensate', 'payments', 'completed', 1, NULL, now()),"
           "('', 'k3', 'charge', 'payments', 'completed', 1, NULL, now()),"
           "('', 'k3', 'charge.compensate', 'payments', 'cancelled', 1, 'refunded by hand', now())");
    auto const not_undone = [&] {
        auto const said = run_skald(db, {"doctor", "--json"}, false);
        return said.text.find("of 1 sagas a step completed") != std::string::npos   ? "1"
               : said.text.find("of 2 sagas a step completed") != std::string::npos ? "2"
                                                                                    : "?";
    };
    CHECK(not_undone() == std::string{"1"});
    // At home, whose own record is gone: what skald.claim() leaves.
    db.ask("SELECT skald.claim(ARRAY[''], ARRAY['k4'], ARRAY['create.compensate'], ARRAY[sha256('')]);"
           "UPDATE skald.idempotency SET status = 'cancelled', error = 'nothing to undo' WHERE step = "
           "'create.compensate'");
    CHECK(not_undone() == std::string{"2"});
    CHECK(level(run_skald(db, {"doctor", "--json"}, false).object(), "not undone") == "problem");
}

TEST_CASE("times that are infinite hide nothing from skald saga, outbox status and doctor")
{
    fresh_database db{"far"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    db.ask("INSERT INTO skald.saga (key, scope, definition, data, itinerary, created_at) SELECT 'k' || n, '', 'd', "
           "'{}', 'i', "
           "CASE WHEN n > 3 THEN 'infinity' WHEN n = 1 THEN '-infinity' ELSE now() END::timestamptz FROM "
           "generate_series(1, 5) n;"
           "SELECT skald.enqueue('x', 'x', 'x', '');"
           "UPDATE skald.outbox SET due_at = 'infinity', created_at = 'infinity'");
    CHECK(run_skald(db, {"saga", "show", "k5"}).code == 0);
    std::string keys;
    for (std::string after;;) {
        std::vector<std::string> words{"saga", "list", "--limit", "1", "--json"};
        if (!after.empty()) words.insert(words.end(), {"--after", after});
        auto const page = run_skald(db, words).object();
        keys += page["sagas"].at(0)["key"].get<std::string>();
        if (page["next"].is_null() || keys.size() > 20) break;
        after = page["next"];
    }
    CHECK(keys == "k1k2k3k4k5");
    for (auto const* at : {"infinity", "-infinity"}) {
        db.ask("UPDATE skald.outbox SET created_at = '" + std::string{at} + "'");
        CHECK(run_skald(db, {"outbox", "status", "--json"}).object()["rows"] == 1);
        CHECK(level(run_skald(db, {"doctor", "--json"}, false).object(), "outbox") != "none");
    }
}

TEST_CASE("skald doctor tells of a database that it can't reach")
{
    service_process command{SKALD_TOOL, {"doctor"}, {{"DATABASE_URL", "postgresql://127.0.0.1:1/x"}}};
    command.start();
    CHECK(command.wait().code == 1);
    CHECK(command.has_logged("problem  database"));
}
