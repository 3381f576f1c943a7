// `skald purge`, `skald outbox` and `skald relay`, as an operator runs them.
#include "support/skald_command.hpp"

using namespace skald::test;

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
    // What was refused is due again at some time: it is counted as due or later, too.
    s.orders_db.ask("UPDATE skald.outbox SET due_at = now() + interval '1 h' WHERE id = 2 OR destination = 'bill'");
    CHECK(run_skald(s.orders_db, {"outbox", "status"})
              .text.find(": 2 are due now, 2 later; 2 of all were refused when they were tried last") !=
          std::string::npos);
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

TEST_CASE("skald relay --until-empty ends when it is told to, although there is always more to send")
{
    shop s;
    s.orders.start();
    s.wait_until_started(s.orders);
    CHECK(s.orders.terminate().code == 0);
    s.orders_db.ask("CREATE SEQUENCE public.sent;"
                    "CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                    "PERFORM nextval('public.sent'), skald.enqueue('orders', 'skald.x', 'k:x', ''); "
                    "RETURN NULL; END $$;"
                    "CREATE TRIGGER again AFTER DELETE ON skald.outbox FOR EACH STATEMENT EXECUTE FUNCTION again();"
                    "SELECT skald.enqueue('orders', 'skald.x', 'k:x', '')");
    service_process relay{SKALD_TOOL, {"relay", "--until-empty", "--json"}, shop::variables(s.orders_db)};
    relay.start();
    CHECK(wait_until([&] { return std::stol(s.orders_db.value("SELECT last_value FROM public.sent")) > 3; }));
    CHECK(relay.terminate().code == 1);
    CHECK_MESSAGE(relay.has_logged("\"unsent\":"), relay.log());
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

TEST_CASE(
    "skald outbox list and drop: what can never be sent is shown and removed, with a reason, and its saga is stuck")
{
    shop s;
    s.open();
    CHECK(s.payments.terminate().code == 0);
    amqp_hands{broker()}.delete_queue("skald.payments");
    REQUIRE(s.order("k").status == 202);
    auto const is_refused = [&] { return s.orders_db.count("skald.outbox WHERE error IS NOT NULL") == 1; };
    REQUIRE(wait_until(is_refused));
    auto const listed = run_skald(s.orders_db, {"outbox", "list", "--to", "payments", "--json"}).object()["messages"];
    REQUIRE(listed.size() == 1);
    CHECK(listed[0]["message_id"] == "k:charge-payment");
    CHECK(listed[0]["error"].get<std::string>().find("NO_ROUTE") != std::string::npos);
    CHECK(run_skald(s.orders_db, {"outbox", "list", "--key", "other"}).text.find("no such message waits") == 0);

    CHECK(run_skald(s.orders_db, {"outbox", "drop", "k:charge-payment"}).code == 2);
    CHECK(run_skald(s.orders_db, {"outbox", "drop", "--reason", "gone"}).code == 2);
    CHECK(run_skald(s.orders_db, {"outbox", "drop", "--to", "payments", "--reason", "gone"}).code == 2);
    CHECK(run_skald(s.orders_db, {"outbox", "drop", "k:nothing", "--reason", "gone"}).code == 1);
    // A relay may have the row at the moment of asking.
    told kept, dropped;
    CHECK(wait_until([&] {
        kept = run_skald(s.orders_db, {"outbox", "drop", "k:charge-payment", "--reason", "gone"});
        return kept.text.find("saga k needs it") != std::string::npos;
    }));
    CHECK(kept.code == 1);
    CHECK(wait_until([&] {
        dropped =
            run_skald(s.orders_db, {"outbox", "drop", "k:charge-payment", "--reason", "gone", "--by", "eve", "--yes"});
        return dropped.code == 0;
    }));
    CHECK_MESSAGE(dropped.text.find("1 dropped") != std::string::npos, dropped.text);
    CHECK(s.status("k") == "stuck");
    auto const shown = run_skald(s.orders_db, {"saga", "show", "k"}).text;
    CHECK_MESSAGE(shown.find("its message was dropped from the outbox of orders by eve as ") != std::string::npos,
                  shown);
    CHECK(s.orders_db.value("SELECT verb || ' ' || key FROM skald.audit") == "outbox drop k");
    auto const again = run_skald(s.orders_db, {"saga", "retry", "--status", "stuck", "--reason", "gone", "--yes"});
    CHECK(again.code == 1);
    CHECK_MESSAGE(again.text.find("saga k: nothing of charge-payment is left to retry: its message") !=
                      std::string::npos,
                  again.text);
    auto const all = run_skald(s.orders_db, {"saga", "cancel", "--status", "stuck", "--reason", "gone", "--yes"});
    CHECK(all.code == 1);
    CHECK_MESSAGE(all.text.find("saga k: nothing of charge-payment is left to retry: its message") != std::string::npos,
                  all.text);
    auto const cancelled = run_skald(s.orders_db, {"saga", "cancel", "k"});
    CHECK(cancelled.code == 1);
    CHECK_MESSAGE(
        cancelled.text.find("it does not end by this: nothing of charge-payment is left to retry: its message") !=
            std::string::npos,
        cancelled.text);
}
