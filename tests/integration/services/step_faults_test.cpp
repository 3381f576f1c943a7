// Steps that throw, for ever or for a while: rolled back, tried again, bounded, and never silent. Triggers on the
// example's tables play the fault, since its steps have none.
#include "support/shop.hpp"

using namespace skald::test;

namespace {

/// Makes every insert into `name` run this PL/pgSQL.
void sabotage(fresh_database& database, std::string const& name, std::string const& code,
              std::string const& when = "INSERT")
{
    database.ask("CREATE FUNCTION sabotage() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN " + code +
                 "; RETURN NEW; END $f$; CREATE TRIGGER sabotage BEFORE " + when + " ON " + name +
                 " FOR EACH ROW EXECUTE FUNCTION sabotage()");
}

void repair(fresh_database& database)
{
    database.ask("DROP FUNCTION sabotage() CASCADE");
}

}  // namespace

TEST_CASE("a step that fails a few times is tried again and then done once")
{
    shop s;
    s.open();
    s.payments_db.ask("CREATE SEQUENCE tries");
    sabotage(s.payments_db, "charge", "IF nextval('tries') < 3 THEN RAISE 'not yet'; END IF");
    REQUIRE(s.order("k").status == 202);
    CHECK(s.ends("k", "completed"));
    CHECK(s.payments_db.ask("SELECT status, attempts FROM skald.idempotency") == table{{"completed", "3"}});
    CHECK(s.payments_db.count("charge") == 1);
    s.check_books(100001, 1000);
    s.close_in_order();
}

TEST_CASE("a step that always fails is given up after its attempts: cancelled while there is a way back, else stuck")
{
    shop s;
    s.open();
    s.payments_db.ask("INSERT INTO wallet VALUES ('no charge', 1000), ('no refund', 1000), ('no confirm', 1000)");
    sabotage(s.payments_db, "charge", "IF NEW.customer = 'no ' || NEW.kind THEN RAISE 'never'; END IF");
    sabotage(s.orders_db, "customer_order",
             "IF NEW.customer = 'no confirm' AND NEW.status = 'confirmed' THEN RAISE 'never'; END IF", "UPDATE");
    REQUIRE(s.order("charge", {.customer = "no charge"}).status == 202);
    REQUIRE(s.order("refund", {.customer = "no refund", .sku = "rare"}).status == 202);
    REQUIRE(s.order("confirm", {.customer = "no confirm"}).status == 202);

    CHECK(s.ends("charge", "compensated", std::chrono::seconds{90}));
    CHECK(s.payments_db.ask("SELECT status, attempts FROM skald.idempotency WHERE key = 'charge'") ==
          table{{"rejected", "8"}});
    CHECK(s.payments_db.count("charge WHERE customer = 'no charge'") == 0);

    CHECK(s.ends("refund", "stuck", std::chrono::seconds{90}));
    CHECK(s.payments_db.ask("SELECT key, step, reason FROM skald.parked") ==
          table{{"refund", "charge-payment.compensate", "attempts_exhausted"}});
    CHECK(s.payments_db.count("charge WHERE kind = 'refund'") == 0);

    CHECK(s.ends("confirm", "stuck", std::chrono::seconds{90}));
    CHECK(s.orders_db.ask("SELECT key, step, reason FROM skald.parked") ==
          table{{"confirm", "confirm-order", "attempts_exhausted"}});
    CHECK(s.outboxes_empty());
    s.close_in_order();
}

// Some codes say that something beneath the step broke, and need not count as its attempt. A step that ends so every
// time must still not be tried for ever with nothing to be seen of it.
TEST_CASE("a step that always fails with one SQLSTATE or another is bounded whatever the code")
{
    std::vector<std::string> const codes{
        "P0001", "0A000", "XX000", "25006", "40001", "40003", "40P01", "42P05", "55000", "55P03", "57014", "2D000",
        "08000", "08001", "08003", "08006", "08P01", "53000", "53100", "53200", "53300", "53400", "42501", "57000",
        "57P01", "57P02", "57P03", "57P04", "57P05", "58000", "58030", "26000", "25P02", "25P03"};
    shop s;
    s.payments.set_variable("SKALD_LANES", "16");
    s.open();
    sabotage(s.payments_db, "charge", "RAISE 'never' USING ERRCODE = NEW.customer");
    for (auto const& code : codes) {
        s.payments_db.ask("INSERT INTO wallet VALUES ('" + code + "', 1000)");
        REQUIRE(s.order(code, {.customer = code}).status == 202);
    }
    for (auto const& code : codes) {
        bool const bounded = wait_until(
            [&] {
                return s.status(code) != "running" ||
                       s.payments_db.count(
                           "skald.idempotency WHERE attempts >= 1 AND status <> 'completed' AND key = '" + code +
                           "'") == 1;
            },
            std::chrono::minutes{2});
        CHECK_MESSAGE(bounded, code, " is tried for ever, and nothing tells");
    }
    s.payments_db.ask("DROP FUNCTION sabotage() CASCADE");
    CHECK(wait_until([&] { return s.orders_db.count("skald.saga WHERE status = 'running'") == 0; },
                     std::chrono::seconds{60}));
    CHECK(s.payments_db.ask("SELECT order_id, kind FROM charge GROUP BY 1, 2 HAVING count(*) > 1").empty());
}

TEST_CASE("a fault that shows only at COMMIT rolls the step back and is tried again")
{
    shop s;
    s.open();
    s.payments_db.ask("CREATE SEQUENCE tries; CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS "
                      "$$ BEGIN IF nextval('tries') < 3 THEN RAISE 'late'; END IF; RETURN NEW; END $$;"
                      "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON charge DEFERRABLE INITIALLY DEFERRED "
                      "FOR EACH ROW EXECUTE FUNCTION late()");
    REQUIRE(s.order("k").status == 202);
    CHECK(s.ends("k", "completed"));
    CHECK(s.payments_db.count("charge") == 1);
    s.check_books(100001, 1000);
    s.close_in_order();
}

TEST_CASE("a step whose connection is killed in its middle is done once")
{
    shop s;
    s.open();
    s.payments_db.ask("CREATE SEQUENCE tries");
    sabotage(s.payments_db, "charge",
             "IF nextval('tries') < 3 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF");
    REQUIRE(s.order("k").status == 202);
    CHECK(s.ends("k", "completed"));
    s.check_books(100001, 1000);
    s.close_in_order();
}

TEST_CASE("the entry's transaction that fails leaves nothing, says so, and the key can be used again")
{
    shop s;
    s.open();
    sabotage(s.orders_db, "customer_order", "RAISE 'not now'");
    auto const answer = s.order("k");
    CHECK(answer.status >= 500);
    CHECK(answer.value_of("Content-Type") == "application/problem+json");
    CHECK(answer.body.find("not now") == std::string::npos);
    CHECK(s.orders_db.count("skald.idempotency") == 0);
    repair(s.orders_db);
    CHECK(s.order("k").status == 202);
    CHECK(s.ends("k", "completed"));
    s.close_in_order();
}

TEST_CASE("an entry whose connection is killed while it commits is never told that it failed when it did not")
{
    shop s;
    s.open();
    s.orders_db.ask("CREATE SEQUENCE tries; CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS "
                    "$$ BEGIN IF nextval('tries') < 2 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; "
                    "RETURN NEW; END $$;"
                    "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON customer_order DEFERRABLE INITIALLY DEFERRED "
                    "FOR EACH ROW EXECUTE FUNCTION late()");
    auto const answer = s.order("k");
    CHECK((answer.status == 202 || answer.status == 503));
    if (answer.status == 503) CHECK(!answer.value_of("Retry-After").empty());
    CHECK(wait_until([&] { return s.order("k").status == 202; }));
    CHECK(s.ends("k", "completed"));
    CHECK(s.orders_db.count("customer_order") == 1);
    s.close_in_order();
}

// skald.start() is the door for other languages: what comes in there is as much a saga as any.
TEST_CASE("a saga whose data does not fit the step does not hang in silence as running")
{
    shop s;
    s.open();
    s.orders_db.ask(
        "SELECT skald.start('', 'sql', 'place-order', 1, '{\"id\":\"x\"}', 'forward 1/2 "
        "charge-payment@payments=compensatable arrange-shipping@shipping=pivot', sha256('x'), 'payments', "
        "'charge-payment', '{\"id\":\"x\"}', '{\"x-idempotency-key\":\"sql:charge-payment\",\"x-saga-scope\":\"\","
        "\"x-saga\":\"place-order\",\"x-saga-version\":\"1\",\"x-saga-itinerary\":\"forward 1/2 "
        "charge-payment@payments=compensatable arrange-shipping@shipping=pivot\"}')");
    REQUIRE(wait_until([&] { return s.payments_db.count("skald.parked") == 1; }));
    CHECK_MESSAGE(s.ends("sql", "stuck", std::chrono::seconds{60}), s.saga("sql").dump());
    s.close_in_order();
}

TEST_CASE("a saga with a step that its service does not host waits for a deployment, in sight, and is stuck then")
{
    shop s;
    s.shipping.set_variable("SKALD_DEPLOY_WAIT_SECONDS", "1");
    s.open();
    s.orders_db.ask("SELECT skald.start('', 'sql', 'place-order', 1, '{}', 'forward 1/1 wrap-gift@shipping=pivot', "
                    "sha256('x'), 'shipping', 'wrap-gift', '{}', '{\"x-idempotency-key\":\"sql:wrap-gift\","
                    "\"x-saga-scope\":\"\",\"x-saga\":\"place-order\",\"x-saga-version\":\"1\","
                    "\"x-saga-itinerary\":\"forward 1/1 wrap-gift@shipping=pivot\"}')");
    REQUIRE(wait_until([&] { return s.shipping_db.count("skald.parked") == 1; }));
    CHECK(s.shipping.has_logged("step.awaits_deploy"));
    CHECK_MESSAGE(s.ends("sql", "stuck", std::chrono::seconds{60}), s.saga("sql").dump());
    s.close_in_order();
}
