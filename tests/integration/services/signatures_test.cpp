// Messages that are signed, from service to service over a real broker; and those that nobody signed, or somebody else.
#include "support/key_files.hpp"
#include "support/shop.hpp"
#include "support/trust.hpp"

using namespace skald::test;

namespace {

class signing_shop : public shop
{
public:
    key_files keys;
    std::string const first{keys.add("first", std::string(64, '1'))};
    std::string const second{keys.add("second", std::string(64, '2'))};
    amqp_hands hands{broker()};

    void set(std::string const& signatures, std::string const& files)
    {
        for (auto* service : services()) {
            service->set_variable("SKALD_SIGNATURES", signatures);
            service->set_variable("SKALD_SIGNING_KEYS", files);
        }
    }
    void restart_one_by_one()
    {
        for (auto* service : services()) {
            CHECK(service->terminate().code == 0);
            service->start();
            wait_until_started(*service);
        }
    }
    std::pair<int, std::string> tool(std::vector<std::string> const& words, fresh_database const& database,
                                     environment const& more = {})
    {
        environment variables{
            {"DATABASE_URL", database.url()}, {"AMQP_URL", broker().url()}, {"PATH", "/usr/bin:/bin"}};
        for (auto const& [name, value] : more) variables[name] = value;
        service_process command{SKALD_TOOL, words, variables};
        command.start();
        auto const end = command.wait();
        return {end.code.value_or(-1), command.log()};
    }
    bool is_parked_for_payments(table const& expected)
    {
        auto const look = [&] { return payments_db.ask("SELECT reason, step FROM skald.parked ORDER BY id"); };
        return wait_until([&] { return look() == expected; }, std::chrono::seconds{60});
    }
    long refunds() { return payments_db.count("charge WHERE kind = 'refund'"); }
};

}  // namespace

TEST_CASE_FIXTURE(signing_shop,
                  "where signatures are required, sagas go forward and back, are stopped, swept and told of")
{
    set("require", first);
    orders.set_arguments({"--listen", "127.0.0.1:0", "--purge-seconds", "1"});
    for (auto* service : {&payments, &shipping}) service->set_arguments({"--purge-seconds", "1"});
    open();
    REQUIRE(order("done").status == 202);
    REQUIRE(order("undone", {.sku = "rare"}).status == 202);
    REQUIRE(order("late", {.customer = "poor", .cents = 50'000}).status == 202);
    CHECK(ends("done", "completed"));
    CHECK(ends("undone", "compensated"));
    CHECK(ends("late", "compensated"));
    CHECK(steps(saga("done")).find("arrange-shipping=completed") != std::string::npos);

    // An order of the home's operator; and what is over is forgotten in every service.
    payments.kill(SIGSTOP);
    REQUIRE(order("stopped").status == 202);
    CHECK(tool({"saga", "cancel", "stopped", "--reason", "late"}, orders_db).first == 0);
    CHECK(wait_until([&] { return shipping_db.count("skald.control") == 1; }));
    payments.kill(SIGCONT);
    CHECK(ends("stopped", "compensated"));
    for (auto* database : databases())
        database->ask("UPDATE skald.idempotency SET created_at = created_at - interval '40 days',"
                      " updated_at = updated_at - interval '40 days';"
                      "UPDATE skald.saga SET finished_at = finished_at - interval '40 days'");
    for (auto* database : databases())
        CHECK(wait_until([&] { return database->count("skald.idempotency") + database->count("skald.saga") == 0; }));
    CHECK(parked_in_all() == 0);
    for (auto* service : services()) CHECK(!service->has_logged("delivery.not_trusted"));
    close_in_order();
}

TEST_CASE_FIXTURE(signing_shop, "a refund that nobody signed, or somebody else, is parked and not paid")
{
    set("require", first);
    hands.capture_everything();
    open();
    REQUIRE(order("k", {.cents = 10'000}).status == 202);
    REQUIRE(ends("k", "completed"));
    auto const captured = hands.take_captured();
    for (auto const& one : captured) CHECK(one.header("skald-signature").starts_with("v1="));
    auto const genuine = charge_of(captured);

    auto refund = refund_of("k", genuine);  // with the signature of the charge
    hands.send(refund);
    CHECK(is_parked_for_payments({{"forged", "charge-payment.compensate"}}));
    refund.remove("skald-signature");
    hands.send_to_all(refund);
    CHECK(is_parked_for_payments({{"forged", "charge-payment.compensate"}, {"unsigned", "charge-payment.compensate"}}));

    // From where the broker puts what it has given up, too.
    refund.body = R"({"id":"k","customer":"ann","sku":"lamp","quantity":1,"cents":99999})";
    refund.destination = "payments.parked";
    hands.send(refund);
    CHECK(wait_until([&] { return payments_db.count("skald.parked WHERE reason = 'unsigned'") == 2; }));

    // The genuine one again is a duplicate.
    hands.send(genuine);
    CHECK(wait_until([&] { return hands.waiting_in("skald.payments") == 0; }));
    CHECK(all_acked());
    CHECK(refunds() == 0);
    CHECK(payments_db.count("skald.parked") == 3);
    CHECK(status("k") == "completed");
    close_in_order();
}

TEST_CASE_FIXTURE(signing_shop, "orders, reports and requests to forget that nobody signed change nothing")
{
    set("require", first);
    open();
    REQUIRE(order("k", {.sku = "rare"}).status == 202);
    REQUIRE(ends("k", "compensated"));
    REQUIRE(outboxes_empty());
    REQUIRE(all_acked());
    auto const before = orders_db.ask("SELECT * FROM skald.progress ORDER BY 1, 2, 3");
    REQUIRE(!before.empty());
    auto const sends = [&](std::string const& to, std::string const& type, std::string const& body) {
        raw_message m;
        m.destination = to;
        m.set_type(type);
        m.set_id("odd " + type);
        m.body = body;
        hands.send(m);
    };
    sends("orders", "skald.progress",
          R"([{"scope":"","key":"k","step":"charge-payment","service":"payments","status":"parked","attempts":1,)"
          R"("at":"2099-01-01T00:00:00.000000Z","saga":"stuck"}])");
    sends("payments", "skald.control",
          R"({"id":"00000000-0000-0000-0000-000000000001","scope":"","key":"k","home":"orders","action":"pause",)"
          R"("by":"eve","requested_at":"2099-01-01T00:00:00.000000Z"})");
    sends(
        "payments", "skald.expire",
        R"([{"scope":"","key":"k","home":"orders","steps":["charge-payment"],"ended_at":"2020-01-01T00:00:00.000000Z"}])");
    CHECK(wait_until([&] { return parked_in_all() == 3; }));
    CHECK(orders_db.ask("SELECT DISTINCT reason FROM skald.parked") == table{{"unsigned"}});
    CHECK(payments_db.ask("SELECT DISTINCT reason FROM skald.parked") == table{{"unsigned"}});
    CHECK(orders_db.ask("SELECT * FROM skald.progress ORDER BY 1, 2, 3") == before);
    CHECK(payments_db.count("skald.control") == 0);
    CHECK(payments_db.count("skald.idempotency WHERE key = 'k'") > 0);
    close_in_order();
}

TEST_CASE_FIXTURE(signing_shop, "a replay does not make a forged message the service's word")
{
    set("require", first);
    hands.capture_everything();
    open();
    REQUIRE(order("k").status == 202);
    REQUIRE(ends("k", "completed"));
    auto forged = refund_of("k", charge_of(hands.take_captured()));
    hands.send(forged);
    REQUIRE(is_parked_for_payments({{"forged", "charge-payment.compensate"}}));
    auto const id = [&] { return payments_db.value("SELECT max(id) FROM skald.parked"); };

    auto refused = tool({"parked", "replay", id()}, payments_db);
    CHECK(refused.first == 1);
    CHECK_MESSAGE(refused.second.find("its signature is not valid") != std::string::npos, refused.second);
    auto const was = id();
    CHECK(tool({"parked", "replay", was, "--yes", "--vouch"}, payments_db).first == 0);
    CHECK(wait_until([&] { return payments_db.count("skald.parked WHERE reason = 'forged' AND id > " + was) == 1; }));
    CHECK(refunds() == 0);

    payments_db.ask("DELETE FROM skald.parked");
    forged.remove("skald-signature");
    hands.send(forged);
    REQUIRE(is_parked_for_payments({{"unsigned", "charge-payment.compensate"}}));
    for (auto const& words : std::vector<std::vector<std::string>>{{id()}, {id(), "--yes"}, {"--all"}}) {
        std::vector<std::string> all{"parked", "replay"};
        all.insert(all.end(), words.begin(), words.end());
        refused = tool(all, payments_db);
        CHECK(refused.first == 1);
        CHECK_MESSAGE(refused.second.find("it has no signature, and a replay would") != std::string::npos,
                      refused.second);
    }
    CHECK(tool({"parked", "replay", "--all", "--vouch"}, payments_db).first == 2);
    CHECK(refunds() == 0);

    // Who knows that it is genuine may say so, and has said it.
    CHECK(tool({"parked", "replay", id(), "--vouch", "--by", "eve"}, payments_db).first == 0);
    CHECK(wait_until([&] { return refunds() == 1; }));
    CHECK(payments_db.value("SELECT detail->>'vouched' FROM skald.audit WHERE actor LIKE 'eve%'") == "true");
    close_in_order();
}

TEST_CASE_FIXTURE(signing_shop, "a running system turns signatures on, and changes its key, without a message parked")
{
    open();
    int number = 0;
    auto const goes_on = [&] {
        auto const done = "done-" + std::to_string(++number), undone = "undone-" + std::to_string(number);
        REQUIRE(order(done).status == 202);
        REQUIRE(order(undone, {.sku = "rare"}).status == 202);
        CHECK(ends(done, "completed"));
        CHECK(ends(undone, "compensated"));
        CHECK(parked_in_all() == 0);
    };
    auto const turn = [&](std::string const& signatures, std::string const& files) {
        INFO(signatures, ' ', files);
        set(signatures, files);
        for (auto* service : services()) {
            CHECK(service->terminate().code == 0);
            service->start();
            wait_until_started(*service);
            goes_on();  // half of them are on the next setting already
        }
    };
    goes_on();
    turn("sign", first);
    CHECK(payments.has_logged("worker.signing signatures=sign"));
    turn("require", first);
    turn("require", first + ',' + second);
    turn("require", second + ',' + first);
    turn("require", second);
    CHECK_FALSE(payments.has_logged("delivery.not_trusted"));
    close_in_order();
}

TEST_CASE_FIXTURE(signing_shop, "while some services do not sign yet, those that do tell of it and take what they send")
{
    for (auto* service : {&payments, &shipping}) {
        service->set_variable("SKALD_SIGNATURES", "sign");
        service->set_variable("SKALD_SIGNING_KEYS", first);
    }
    open();
    REQUIRE(order("k").status == 202);
    CHECK(ends("k", "completed"));
    CHECK_MESSAGE(payments.has_logged("delivery.not_trusted"), payments.log());
    CHECK(payments.has_logged("reason=unsigned"));
    CHECK(parked_in_all() == 0);
    close_in_order();
}

TEST_CASE_FIXTURE(signing_shop, "a relay without a service signs too")
{
    set("require", first);
    orders.set_variable("SKALD_RELAY", "off");
    open();
    REQUIRE(order("k").status == 202);
    auto const moved =
        tool({"relay", "--until-empty"}, orders_db, {{"SKALD_SIGNATURES", "require"}, {"SKALD_SIGNING_KEYS", first}});
    CHECK_MESSAGE(moved.first == 0, moved.second);
    CHECK(wait_until([&] { return payments_db.count("charge") == 1; }));
    CHECK(payments_db.count("skald.parked") == 0);
    CHECK(tool({"relay", "--until-empty"}, orders_db, {{"SKALD_SIGNATURES", "require"}}).first == 2);
    auto const forgotten = tool({"relay", "--until-empty"}, orders_db, {{"SKALD_SIGNING_KEYS", first}});
    CHECK_MESSAGE(forgotten.first == 2, forgotten.second);
    CHECK(forgotten.second.find("SKALD_SIGNING_KEYS is of SKALD_SIGNATURES=sign or require") != std::string::npos);
    for (auto* service : services()) CHECK(service->terminate().code == 0);
}
