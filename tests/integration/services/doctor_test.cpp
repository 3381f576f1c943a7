// `skald doctor`: what it finds wrong with a database and a broker, and that it finds nothing where nothing is.
#include "support/server_setting.hpp"
#include "support/skald_command.hpp"

using namespace skald::test;

TEST_CASE("skald doctor finds nothing wrong with a healthy service, and names what is wrong with an ill one")
{
    no_absent_standby const meanwhile;
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
    for (std::string const check : {"migrations", "queue", "parked"})
        CHECK_MESSAGE(level(ill.object(), check) == "problem", check);
    for (std::string const check : {"outbox", "events"}) CHECK_MESSAGE(level(ill.object(), check) == "warning", check);
    CHECK(ill.text.find("NO_ROUTE: no queue is bound for `trips`") != std::string::npos);
    CHECK(ill.text.find("skald.orders.parked does not exist") != std::string::npos);
    CHECK(ill.text.find("1 to x: 312 NO_ROUTE: its queue is not bound") != std::string::npos);
}

TEST_CASE("skald doctor at the home of sagas names a service that they go to, and whose queue nobody consumes")
{
    shop s;
    s.open();
    s.payments.terminate();
    CHECK(level(run_skald(s.orders_db, {"doctor", "--json"}).object(), "other services") == "none");
    REQUIRE(s.connect().ask(shop::post("k", order_request{}.body())).status == 202);
    told seen;
    CHECK(wait_until([&] {
        seen = run_skald(s.orders_db, {"doctor", "--json"});
        return level(seen.object(), "other services") == "problem";
    }));
    CHECK(seen.code == 1);
    CHECK_MESSAGE(seen.text.find("no process consumes skald.payments; 1 messages wait") != std::string::npos,
                  seen.text);
    s.payments.start();
    CHECK(wait_until([&] {
        seen = run_skald(s.orders_db, {"doctor", "--json"});
        return level(seen.object(), "other services") == "none";
    }));
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
    CHECK_MESSAGE(seen.text.find("has held locks on public.wallet for ") != std::string::npos, seen.text);
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

TEST_CASE("skald doctor says that the purge waits while too much is due in the outbox")
{
    fresh_database db{"behind"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    db.ask(
        "DO $$ BEGIN PERFORM skald.enqueue('x', 'x', 'x', '', delay => '1 h') FROM generate_series(1, 10001); END $$");
    std::string const said = "over 10,000 messages in the outbox are due";
    CHECK(run_skald(db, {"doctor"}, false).text.find(said) == std::string::npos);
    db.ask("UPDATE skald.outbox SET due_at = clock_timestamp()");
    CHECK(run_skald(db, {"doctor"}, false).text.find(said) != std::string::npos);
}

TEST_CASE("skald doctor tells of a database that it can't reach")
{
    service_process command{SKALD_TOOL, {"doctor"}, {{"DATABASE_URL", "postgresql://127.0.0.1:1/x"}}};
    command.start();
    CHECK(command.wait().code == 1);
    CHECK(command.has_logged("problem  database"));
}

TEST_CASE("skald doctor sees what was changed in Skald's tables by hand: persistence, checks and defaults")
{
    fresh_database db{"shape"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    db.ask("ALTER TABLE skald.outbox SET UNLOGGED; ALTER TABLE skald.parked SET UNLOGGED;"
           "ALTER TABLE skald.outbox ADD CONSTRAINT small CHECK (octet_length(payload) < 10) NOT VALID;"
           "ALTER TABLE skald.saga DROP CONSTRAINT finished_exactly_in_final_states;"
           "ALTER TABLE skald.outbox ALTER due_at SET DEFAULT 'infinity';"
           "ALTER TABLE skald.idempotency ALTER status SET DEFAULT 'retrying', ALTER attempts DROP DEFAULT;"
           "ALTER TABLE skald.audit ALTER actor SET DEFAULT 'somebody';"
           "ALTER TABLE skald.idempotency DISABLE TRIGGER transaction_is_finished");
    auto const ill = run_skald(db, {"doctor"}, false);
    CHECK(ill.code == 1);
    for (std::string const said :
         {"skald.outbox is UNLOGGED", "skald.parked is UNLOGGED",
          "skald.outbox has the constraint small, which is not Skald's: CHECK ((octet_length(payload) < 10)) NOT VALID",
          "skald.saga lacks the constraint finished_exactly_in_final_states",
          "column due_at has the default 'infinity'", "and not the default clock_timestamp()",
          "column status has the default 'retrying'", "column attempts has no default, and not the default 1",
          "column actor has the default 'somebody'::text, and not none",
          "skald.idempotency lacks the trigger transaction_is_finished, or it is disabled"})
        CHECK_MESSAGE(ill.text.find(said) != std::string::npos, said, ": ", ill.text);
}

TEST_CASE("skald doctor sees that a function of Skald's was altered, replaced, dropped or added")
{
    fresh_database db{"functions"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    CHECK(level(run_skald(db, {"doctor", "--json"}, false).object(), "functions") == "ok");
    db.ask("ALTER FUNCTION skald.advance(text, text, text, text) SET enable_seqscan = on;"
           "ALTER FUNCTION skald.actor(text) RESET search_path;"
           "ALTER FUNCTION skald.instant(timestamptz) SECURITY DEFINER;"
           "CREATE OR REPLACE FUNCTION skald.is_replayable(parked_at timestamptz) RETURNS boolean LANGUAGE sql STABLE "
           "SET search_path = pg_catalog, pg_temp AS 'SELECT true';"
           "CREATE FUNCTION skald.claim(text) RETURNS int LANGUAGE sql AS 'SELECT 1';"
           "CREATE FUNCTION skald.mine() RETURNS int LANGUAGE sql AS 'SELECT 1';"
           "DROP FUNCTION skald.record_ended(jsonb)");
    auto const ill = run_skald(db, {"doctor"}, false);
    CHECK(ill.code == 1);
    for (std::string const said :
         {"skald.advance(text,text,text,text) has other settings", "skald.actor(text) has other settings",
          "skald.instant(timestamp with time zone) runs with its owner's rights",
          "skald.is_replayable(timestamp with time zone) has another body", "skald.claim(text) has another body",
          "skald.mine() is not Skald's", "skald.record_ended is missing"})
        CHECK_MESSAGE(ill.text.find(said) != std::string::npos, said, ": ", ill.text);
}

TEST_CASE("skald doctor comes back though a table of Skald's is locked, and says by whom, since when and what to do")
{
    fresh_database db{"locked"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    std::string table, mode = "ACCESS EXCLUSIVE";
    SUBCASE("what it asks first")
    {
        table = "migration";
    }
    SUBCASE("whose database it is")
    {
        table = "service";
    }
    SUBCASE("the sagas")
    {
        table = "saga";
    }
    SUBCASE("the outbox, which may still be read")
    {
        table = "outbox";
        mode = "SHARE";
    }
    pqxx::connection c{db.url() + "?application_name=vacuum-night"};
    pqxx::work forgotten{c};
    forgotten.exec("LOCK TABLE skald." + table + " IN " + mode + " MODE");
    auto const pid = std::to_string(c.backendpid());
    told seen;
    CHECK(wait_until([&] {
        seen = run_skald(db, {"doctor"}, false);
        return seen.text.find("session " + pid) != std::string::npos;
    }));
    CHECK(seen.code == 1);
    CHECK_MESSAGE(seen.text.find("application vacuum-night, idle in transaction) has locked skald." + table) !=
                      std::string::npos,
                  seen.text);
    CHECK_MESSAGE(seen.text.find("its transaction began at 2") != std::string::npos, seen.text);
    CHECK_MESSAGE(seen.text.find("end it with `SELECT pg_terminate_backend(" + pid + ")`") != std::string::npos,
                  seen.text);
    // Each check that met it says so by itself: when it comes to `locked tables`, the lock may be gone.
    CHECK_MESSAGE(seen.text.find("not examined: a table of Skald's was locked for too long; session " + pid) !=
                      std::string::npos,
                  seen.text);
    CHECK_MESSAGE(seen.text.find("`locked tables`") == std::string::npos, seen.text);
    if (mode == "SHARE") CHECK_MESSAGE(seen.text.find("\nok       outbox ") != std::string::npos, seen.text);
    CHECK(seen.text.find("contention") != std::string::npos);
}

TEST_CASE("skald doctor says of steps that only waited for locks what it knows, and where to look")
{
    fresh_database db{"waited"};
    REQUIRE(run_skald(db, {"migrate", "--service", "orders"}).code == 0);
    auto const quiet = run_skald(db, {"doctor"}, false);
    CHECK_MESSAGE(quiet.text.find("those that only waited for a lock are not counted: see `locks`") !=
                      std::string::npos,
                  quiet.text);
    db.ask("INSERT INTO skald.contention (step, lanes, batch, takes_turns, conflicts, reason, last_conflict_at) "
           "VALUES ('charge', 1, 1, true, 10, 'another transaction was in the way', now())");
    db.ask("INSERT INTO skald.contention (step, lanes, batch, takes_turns, conflicts, reason) VALUES "
           "('ship', 4, 32, false, 0, 'another session holds a lock for longer than SKALD_LOCK_TIMEOUT_MS')");
    auto const busy = run_skald(db, {"doctor"}, false);
    CHECK_MESSAGE(busy.text.find("step ship waited for a lock of another session for longer than") != std::string::npos,
                  busy.text);
    CHECK_MESSAGE(busy.text.find("step charge contends for rows: 10 transactions were rolled back because of others") !=
                      std::string::npos,
                  busy.text);
}

TEST_CASE("skald doctor says whether its user may consume the service's queues, and takes no message to find out")
{
    shop s;
    s.start_all();
    CHECK(s.payments.terminate().code == 0);
    amqp_hands hands{broker()};
    raw_message waiting;
    waiting.destination = "payments";
    hands.send(waiting);
    auto const user = "reader-" + random_word();
    rabbitmqctl("add_user " + user + " secret");
    auto place = broker();
    place.user = user;
    place.password = "secret";
    auto variables = shop::variables(s.payments_db);
    variables["AMQP_URL"] = place.url();
    variables["SKALD_DECLARE"] = "off";
    auto const seen = [&](std::string const& read) {
        rabbitmqctl("set_permissions -p " + broker().vhost + ' ' + user + " '^$' '^skald$' '" + read + "'");
        service_process command{SKALD_TOOL, {"doctor", "--json"}, variables};
        command.run();
        return command.log();
    };
    auto const told_level = [](std::string const& text) {
        return level(json::parse(text.substr(text.find('{'))), "consuming");
    };
    CHECK(told_level(seen("^skald\\.payments(\\.parked)?$")) == "ok");
    for (std::string const read : {"^$", "^skald\\.payments$", "^skald\\.payments\\.parked$"}) {
        auto const text = seen(read);
        CHECK_MESSAGE(told_level(text) == "problem", text);
        CHECK_MESSAGE(text.find("ACCESS_REFUSED") != std::string::npos, text);
    }
    CHECK(hands.waiting_in("skald.payments") == 1);
    auto const unconsumed = run_skald(s.payments_db, {"doctor", "--json"});
    CHECK(level(unconsumed.object(), "consuming") == "ok");
    CHECK(unconsumed.code == 1);
    CHECK_MESSAGE(level(unconsumed.object(), "queue") == "problem", "a message waits, and nobody takes it");
    CHECK(hands.look_at_next("skald.payments", [](auto const& m) {
        for (int n = 0; n < m.properties.headers.num_entries; ++n)
            if (view(m.properties.headers.entries[n].key) == "x-delivery-count")
                CHECK_MESSAGE(m.properties.headers.entries[n].value.value.i64 == 0, "it was never delivered before");
    }));
    rabbitmqctl("delete_user " + user);
}
