// Parked deliveries: put back once, dropped on the record, and never run twice.
#include "admin/commands.hpp"
#include "admin/explanation.hpp"
#include "admin/parked_deliveries.hpp"
#include "admin/saga_view.hpp"
#include "support/stepped_shop.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <latch>
#include <thread>

using skald::test::completed;
using skald::test::stepped_shop;

namespace {

class parking_shop : public stepped_shop
{
public:
    /// A saga whose charge the broker gave up on: parked at payments, and stuck.
    void park_charge()
    {
        auto given_up = skald::test::delivery_of(order_up_to("charge-payment"));
        given_up.given_up = true;
        at("payments").process(given_up);
        run();
        REQUIRE(saga_status("1") == "stuck");
        REQUIRE(parked() == "payments|delivery_limit|1");
    }

    std::int64_t id() { return std::stoll(at("payments").db.one("SELECT max(id) FROM skald.parked")); }

    /// The refusal, or nothing.
    std::string replay(std::int64_t which, bool forced = false)
    {
        skald::postgres::connection c{{.url = at("payments").db.url()}};
        return skald::admin::replay_parked(c, which, "eve", forced).value_or("");
    }

    std::string drop(std::int64_t which, bool forced = false, std::string const& why = "a test")
    {
        skald::postgres::connection c{{.url = at("payments").db.url()}};
        return skald::admin::drop_parked(c, which, why, "eve", forced).value_or("");
    }

    std::string record()
    {
        return at("payments")
            .db.rows("SELECT status, attempts, snoozes FROM skald.idempotency WHERE step = 'charge-payment'");
    }

    std::string audit()
    {
        return at("payments").db.rows("SELECT verb, key, detail->>'reason' FROM skald.audit ORDER BY id");
    }

    static bool contains(std::string const& text, std::string const& part)
    {
        return text.find(part) != std::string::npos;
    }
};

}  // namespace

TEST_CASE("a delivery that came back too often is a duplicate if its step has run: others may have ended the process")
{
    parking_shop s;
    auto delivery = skald::test::delivery_of(s.order_up_to("charge-payment"));
    s.at("payments").process(delivery);
    delivery.given_up = true;
    s.at("payments").process(delivery);
    s.run();
    CHECK(s.saga_status("1") == "completed");
    CHECK(s.parked().empty());
}

TEST_CASE("a replayed step runs once, though it is replayed twice and delivered twice")
{
    parking_shop s;
    s.park_charge();
    auto const id = s.id();
    CHECK(s.replay(id).empty());
    CHECK(s.contains(s.replay(id), "it was replayed or dropped already"));
    s.at("payments").relay_due();
    s.transport().inject(s.last_sent("charge-payment"));
    s.run();
    CHECK(s.effects() == completed);
    CHECK(s.saga_status("1") == "completed");
    CHECK(s.audit() == "parked replay|1|delivery_limit");
    CHECK(s.at("payments").db.one("SELECT actor FROM skald.audit").starts_with("eve as "));
}

TEST_CASE("two operators who replay the same delivery at once put it back once")
{
    parking_shop s;
    s.park_charge();
    auto const id = s.id();
    std::latch both{2};
    std::array<std::string, 2> said;
    auto const press = [&](std::string& answer) {
        both.arrive_and_wait();
        answer = s.replay(id);
    };
    std::jthread{[&] { press(said[0]); }}, press(said[1]);
    CHECK(said[0].empty() != said[1].empty());
    CHECK(s.at("payments").db.one("SELECT count(*) FROM skald.outbox WHERE type = 'charge-payment'") == "1");
    s.run();
    CHECK(s.effects() == completed);
}

TEST_CASE("a replay keeps the derived key, moves the turn on and counts the attempts anew")
{
    parking_shop s;
    s.park_charge();
    s.at("payments").db.run("UPDATE skald.idempotency SET attempts = 5, snoozes = 2 WHERE step = 'charge-payment'");
    CHECK(s.replay(s.id()).empty());
    CHECK(s.record() == "retrying|0|7");
    CHECK(s.at("payments")
              .db.rows("SELECT idempotency_key, destination, headers->>'x-attempt', headers->>'x-snoozes', "
                       "headers->>'x-idempotency-key' FROM skald.outbox WHERE type = 'charge-payment'") ==
          "1:charge-payment|payments|1|7|1:charge-payment");
    s.at("payments").relay_due();
    while (s.at("orders").process_one()) continue;
    CHECK(s.saga_status("1") == "running");
    s.run();
    CHECK(s.record() == "completed|1|7");
}

TEST_CASE("what became of the step meanwhile is told, and nothing is put back")
{
    parking_shop s;
    s.park_charge();
    for (auto const* status : {"completed", "rejected", "cancelled"}) {
        s.at("payments")
            .db.run("UPDATE skald.idempotency SET status = '" + std::string{status} +
                    "' WHERE step = 'charge-payment'");
        CHECK(s.contains(s.replay(s.id()), "charge-payment of saga 1 is " + std::string{status} + " by now"));
    }
    CHECK(s.at("payments").db.one("SELECT count(*) FROM skald.outbox") == "0");
    CHECK(s.audit().empty());
}

TEST_CASE("a delivery that can't be sent is refused by its number, and does not hold up the others")
{
    parking_shop s;
    s.park_charge();
    s.at("payments").db.run("UPDATE skald.parked SET scope = repeat('x', 65), type = 'skald.step'");
    auto const said = s.replay(s.id());
    CHECK_MESSAGE(s.contains(said, "parked delivery " + std::to_string(s.id()) + " can't be replayed"), said);
}

TEST_CASE("what was parked more than 30 days ago is not replayed")
{
    parking_shop s;
    s.park_charge();
    s.at("payments").db.run("UPDATE skald.parked SET parked_at = now() - interval '31 days'");
    CHECK(s.contains(s.replay(s.id()), "more than 30 days ago: look up what has run"));
    s.at("payments").db.run("UPDATE skald.parked SET parked_at = now() - interval '29 days'");
    CHECK(s.replay(s.id()).empty());
}

TEST_CASE("a step that committed by itself is put back only by whoever says that he has looked")
{
    parking_shop s;
    s.park_charge();
    s.at("payments").db.run("UPDATE skald.parked SET reason = 'transaction_ended'");
    CHECK(s.contains(s.replay(s.id()), "committed by itself"));
    s.at("orders").db.run("SELECT skald.request_control('retry', '', '1')");
    s.run();
    CHECK_MESSAGE(s.saga_status("1") == "stuck", "a retry from home does not put it back unseen either");
    CHECK(s.contains(s.at("orders").db.one("SELECT error FROM skald.progress WHERE status = 'parked'"), "--yes"));
    CHECK(s.replay(s.id(), true).empty());
    s.run();
    CHECK(s.effects() == completed);
}

TEST_CASE("another body under a used key, and headers that name no step, are nothing to replay")
{
    parking_shop s;
    s.order("1");
    s.run();
    auto forged = s.last_sent("charge-payment");
    forged.body = R"({"id":"o-1","customer":"ann","sku":"pen","quantity":1,"cents":999})";
    s.transport().inject(forged);
    s.run();
    CHECK(s.contains(s.replay(s.id()), "used before with another body"));
    forged.headers.clear();
    s.transport().inject(forged);
    s.run();
    CHECK(s.contains(s.replay(s.id()), "its headers name no step"));
    CHECK(s.drop(s.id()).empty());
}

TEST_CASE("a delivery that no record knows is put back as it came")
{
    parking_shop s;
    s.order_up_to("charge-payment");
    auto const& db = s.at("payments").db;
    auto const d = skald::test::delivery_of(s.last_sent("charge-payment"));
    skald::postgres::postgres_store store{{.url = db.url()}};
    skald::ports::changes changes;
    changes.parked.push_back({{"", "1"}, "charge-payment", "unprocessable", "the disk was full", d.message, 0});
    store.write(changes);
    CHECK(s.replay(s.id()).empty());
    CHECK(db.one("SELECT headers->>'x-attempt' FROM skald.outbox WHERE type = 'charge-payment'") == "1");
    s.run();
    CHECK(s.effects() == completed);
}

TEST_CASE("what nobody signed, or somebody else, is neither what a saga waits for nor what an order puts back")
{
    for (std::string const reason : {"unsigned", "forged"}) {
        parking_shop s;
        s.park_charge();
        auto& payments = s.at("payments").db;
        auto const genuine = s.id();
        payments.run(
            "INSERT INTO skald.parked (scope, key, step, reason, message_id, type, content_type, body, headers, "
            "fingerprint) SELECT scope, key, step, '" +
            reason +
            "', message_id, type, content_type, '{\"id\":\"evil\"}', headers, fingerprint "
            "FROM skald.parked");
        auto const strange = s.id();
        CHECK(s.contains(s.drop(genuine), "is stuck on it"));
        CHECK(s.contains(s.replay(strange, reason == "unsigned"),
                         reason == "unsigned" ? "it has no signature" : "its signature is not valid"));
        s.at("orders").db.run("SELECT skald.request_control('retry', '', '1')");
        s.run();
        CHECK(s.effects() == completed);
        CHECK(payments.rows("SELECT id FROM skald.parked") == std::to_string(strange));
        CHECK(s.contains(s.replay(strange, true), "there is nothing to replay"));
        CHECK(s.drop(strange) == "");
    }
}

TEST_CASE("what is put back is for the relay to sign, but for what came with a wrong signature")
{
    parking_shop s;
    s.park_charge();
    auto& payments = s.at("payments").db;
    auto const sent = [&] {
        auto row = payments.rows(
            "SELECT coalesce(headers->>'skald-signature', 'none'), headers->>'x-attempt' FROM skald.outbox");
        payments.run("DELETE FROM skald.outbox");
        return row;
    };
    auto const parks = [&](std::string const& reason) {
        payments.run(
            "INSERT INTO skald.parked (key, step, reason, message_id, type, body, headers, fingerprint) VALUES "
            "('9', 'charge-payment', '" +
            reason +
            "', 'm', 'charge-payment', '{}', '{\"skald-signature\": \"v1=a:b\", \"x-attempt\": \"3\"}', "
            "sha256('" +
            reason + "'))");
        return s.id();
    };
    CHECK(s.replay(parks("unprocessable")).empty());
    CHECK(sent() == "none|3");
    CHECK(s.replay(parks("forged"), true).empty());
    CHECK(sent() == "v1=a:b|3");
}

TEST_CASE("a dropped delivery is gone, and who dropped which one and why is kept")
{
    parking_shop s;
    s.park_charge();
    CHECK(s.contains(s.drop(s.id()), "saga 1 is stuck on it"));
    CHECK(s.drop(s.id(), true, "").starts_with("a reason is required"));
    CHECK(s.parked() == "payments|delivery_limit|1");
    auto const id = s.id();
    CHECK(s.drop(id, true).empty());
    CHECK(s.parked().empty());
    CHECK(s.contains(s.drop(id), "it was replayed or dropped already"));
    CHECK(s.at("payments")
              .db.rows("SELECT verb, key, detail->>'why', detail->>'step', length(detail->>'body_sha256') FROM "
                       "skald.audit") == "parked drop|1|a test|charge-payment|64");

    // Its home hears of it, and no retry is promised that can't be.
    s.run();
    CHECK(s.saga_status("1") == "stuck");
    skald::postgres::connection c{{.url = s.at("orders").db.url()}};
    auto const seen = skald::admin::find_saga(c, {"", "1"});
    REQUIRE(seen);
    auto const explained = skald::admin::explain(*seen);
    CHECK_MESSAGE(s.contains(explained, "and its delivery was dropped by eve as "), explained);
    CHECK_MESSAGE(s.contains(explained, ": a test. Nothing is left to retry: `skald saga pause 1`"), explained);
    CHECK(s.contains(skald::admin::issue(c, {"retry", {"", "1"}, "", "eve"}).value("refused", ""),
                     "nothing of charge-payment is left to retry"));
}

TEST_CASE("lists go page by page and filter by what an operator knows")
{
    parking_shop s;
    s.park_charge();
    skald::postgres::connection c{{.url = s.at("payments").db.url()}};
    s.at("payments")
        .db.run("INSERT INTO skald.parked (key, step, reason, body, fingerprint) SELECT 'k' || n, 's', 'malformed', "
                "'\\xff', sha256(n::text::bytea) FROM generate_series(1, 4) n");
    skald::admin::parked_filter filter{.limit = 2};
    std::string seen;
    for (nlohmann::json page;;) {
        page = skald::admin::list_parked(c, filter);
        for (auto const& p : page["parked"]) seen += p["key"].get<std::string>() + ' ';
        if (page["next"].is_null()) break;
        filter.after = page["next"];
    }
    CHECK(seen == "1 k1 k2 k3 k4 ");
    CHECK(skald::admin::list_parked(c, {.reason = "delivery_limit"})["parked"].size() == 1);
    CHECK(skald::admin::list_parked(c, {.key = "k2"})["parked"].size() == 1);
    CHECK(skald::admin::list_parked(c, {.step = "s"})["parked"].size() == 4);
    CHECK(skald::admin::list_parked(c, {.scope = "other"})["parked"].empty());
    CHECK(skald::admin::show_parked(c, s.id())->at("body_hex") == "ff");
    CHECK(!skald::admin::show_parked(c, s.id() + 1));
}

TEST_CASE("a step that Skald's own writes can't be made for is parked, its saga is stuck, and a retry puts it back")
{
    parking_shop s;
    auto const& db = s.at("payments").db;
    db.run("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no such keys here'; END $$;"
           "CREATE TRIGGER refuse BEFORE INSERT ON skald.idempotency FOR EACH ROW EXECUTE FUNCTION refuse()");
    bool is_told{};
    SUBCASE("and its home is told")
    {
        is_told = true;
    }
    SUBCASE("unless that can't be written either")
    {
        db.run("CREATE TRIGGER refuse BEFORE INSERT ON skald.outbox FOR EACH ROW EXECUTE FUNCTION refuse()");
    }
    s.order_up_to("charge-payment");
    {
        skald::test::running_lanes const some{s.at("payments"), 1};
        CHECK(skald::testing::wait_until([&] { return s.parked() == "payments|unprocessable|1"; }));
    }
    CHECK(s.contains(db.one("SELECT error FROM skald.parked"), "no such keys here"));
    db.run("DROP FUNCTION refuse() CASCADE");
    s.run();
    CHECK(s.saga_status("1") == (is_told ? "stuck" : "running"));
    if (is_told) {
        CHECK_MESSAGE(s.contains(s.drop(s.id()), "is stuck on it"), "what a saga waits for is not dropped unseen");
        auto const said = s.at("orders").db.one("SELECT skald.request_control('retry', '', '1', 'mended', 'eve')");
        CHECK_MESSAGE(!s.contains(said, "refused"), said);
    }
    else CHECK(s.replay(s.id()).empty());
    s.run();
    CHECK(s.effects() == completed);
    CHECK(s.saga_status("1") == "completed");
}
