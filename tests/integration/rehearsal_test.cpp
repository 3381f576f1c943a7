// A rehearsal says what a step would do, and leaves nothing of it behind.
#include "support/rehearsed.hpp"
#include "support/stepped_shop.hpp"
#include "support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

using nlohmann::json;
using skald::test::every_row;
using skald::test::rehearse;
using skald::test::says;
using skald::test::stepped_shop;
using skald::test::table_of;

namespace {

class rehearsed_shop : public stepped_shop
{
public:
    rehearsed_shop()
    {
        using namespace order_saga;
        payments.host(place_order, steps::charge_payment, charge_payment{});
        orders.host(place_order, steps::create_order, create_order{});
        orders.host(place_order, steps::confirm_order, confirm_order{});
    }

    skald::test::database const& db() { return at("payments").db; }

    /// A saga whose charge the broker gave up on: parked at payments, and stuck.
    void park_charge()
    {
        auto given_up = skald::test::delivery_of(order_up_to("charge-payment"));
        given_up.given_up = true;
        at("payments").process(given_up);
        run();
        REQUIRE(parked() == "payments|delivery_limit|1");
    }

    json rehearsed(std::string const& key, std::optional<std::string> data = {})
    {
        auto const before = every_row(db());
        auto report = rehearse(payments, db().url(), key, "", std::move(data));
        CHECK(every_row(db()) == before);
        return report;
    }

    skald::service payments{"payments"}, orders{"orders"};
};

constexpr std::size_t two_mib = 2 * 1024 * 1024;

struct adds_two_mib final : skald::compensatable_step<order_saga::order>
{
    skald::outcome execute(skald::step_context&, order_saga::order& o) const override
    {
        o.customer.assign(two_mib, 'n');
        return skald::done();
    }
    void compensate(skald::step_context&, order_saga::order&) const override {}
};

}  // namespace

TEST_CASE("a rehearsal of a parked step says which rows it would write and what it would send")
{
    rehearsed_shop s;
    s.park_charge();
    auto const report = s.rehearsed("1:charge-payment");
    INFO(report.dump(2));
    CHECK(report["ends"] == "done");
    CHECK(says(report["from"], "parked delivery"));
    CHECK(table_of(report, "public.wallet")["rows"] ==
          json::parse(R"([{"op": "update", "before": {"customer": "ann", "cents": 1000},
                                           "after": {"customer": "ann", "cents": 900}}])"));
    CHECK(table_of(report, "public.charge")["inserted"] == 1);
    CHECK(table_of(report, "public.charge")["rows"][0]["op"] == "insert");
    CHECK(table_of(report, "public.charge")["rows"][0]["after"]["order_id"] == "o-1");
    CHECK(says(report["locks"], R"({"mode":"RowExclusiveLock","on":"public.wallet"})"));
    bool sends_on = false;
    for (auto const& m : report["messages"]) sends_on = sends_on || m["id"] == "1:arrange-shipping";
    CHECK(sends_on);
}

TEST_CASE("a rehearsed step still runs once when it is replayed")
{
    rehearsed_shop s;
    s.park_charge();
    CHECK(s.rehearsed("1:charge-payment")["ends"] == "done");
    CHECK(s.db().one("SELECT skald.replay_parked((SELECT max(id) FROM skald.parked), 'eve')").empty());
    s.run();
    CHECK(s.effects() == skald::test::completed);
}

TEST_CASE("a rehearsal of a step that would be rejected says why, and that no row of its own would stay")
{
    rehearsed_shop s;
    s.park_charge();
    s.db().run("UPDATE wallet SET cents = 1");
    auto const report = s.rehearsed("1:charge-payment");
    INFO(report.dump(2));
    CHECK(report["ends"] == "rejected");
    CHECK(report["reason"] == "insufficient funds");
    CHECK(table_of(report, "public.charge").is_null());
}

TEST_CASE("a step that is decided is rehearsed as if it were not, and the report says so")
{
    rehearsed_shop s;
    s.order("1");
    s.run();
    REQUIRE(s.effects() == skald::test::completed);
    for (auto const* const part : {"1:charge-payment: the step is decided: completed since ", "--data FILE"})
        CHECK_THROWS_WITH_AS(s.rehearsed("1:charge-payment"), doctest::Contains(part), skald::configuration_error);
    auto const data = R"({"id": "o-1", "customer": "ann", "item": "pen", "sku": "pen", "quantity": 1, "cents": 250})";
    auto const report = s.rehearsed("1:charge-payment", data);
    INFO(report.dump(2));
    CHECK(report["ends"] == "done");
    CHECK(says(report["notes"], "the step is decided: completed"));
    CHECK(table_of(report, "public.wallet")["rows"][0]["after"]["cents"] == 650);
}

TEST_CASE("a parked delivery that can't be replayed is not rehearsed either, and the refusal says why and what to do")
{
    rehearsed_shop s;
    auto delivery = skald::test::delivery_of(s.order_up_to("charge-payment"));
    s.at("payments").process(delivery);
    delivery.message.body = R"({"id": "o-1", "customer": "ann", "sku": "pen", "quantity": 1, "cents": 99})";
    s.at("payments").process(delivery);
    REQUIRE(s.parked() == "payments|mismatch|1");
    for (auto const* const part : {"its key was used before with another body", "drop it", "--data FILE"})
        CHECK_THROWS_WITH_AS(s.rehearsed("1:charge-payment"), doctest::Contains(part), skald::configuration_error);
    CHECK(s.rehearsed("1:charge-payment", delivery.message.body)["ends"] == "done");
}

TEST_CASE("data that has become large is rehearsed with the service's own settings of large bodies, and kept nowhere")
{
    rehearsed_shop s;
    s.park_charge();
    skald::service large{"payments"};
    large.host(order_saga::place_order, order_saga::steps::charge_payment, adds_two_mib{});
    skald::test::temporary_directory const place;
    skald::config settings;
    settings.body_store = "directory:" + place.path().string();
    auto const report = rehearse(large, s.db().url(), "1:charge-payment", "", {}, settings);
    CHECK(report["ends"] == "done");
    CHECK(std::ranges::any_of(report["messages"], [](auto const& m) {
        return m["id"] == "1:arrange-shipping" && m["body"].template get_ref<std::string const&>().size() > two_mib;
    }));
    for (auto const& one : std::filesystem::recursive_directory_iterator{place.path()})
        CHECK(one.file_size() < two_mib);
    CHECK(says(rehearse(large, s.db().url(), "1:charge-payment")["error"], "set SKALD_BODY_STORE in both"));
}

TEST_CASE("a rehearsal with data does not make a service the home of a saga that was started elsewhere")
{
    rehearsed_shop s;
    auto const data = R"({"id": "o-9", "customer": "ann", "sku": "pen", "quantity": 1, "cents": 10})";
    auto report = s.rehearsed("9:charge-payment", data);
    CHECK(report["ends"] == "done");
    CHECK(table_of(report, "skald.parked").is_null());
    s.db().run("UPDATE wallet SET cents = 1");
    report = s.rehearsed("9:charge-payment", data);
    INFO(report.dump(2));
    CHECK(report["ends"] == "rejected");
    CHECK(table_of(report, "skald.parked").is_null());
}

TEST_CASE("the last step completes its saga, and the last compensation compensates it")
{
    rehearsed_shop s;
    s.order("1");
    s.run();
    s.at("orders").db.run("UPDATE skald.saga SET status = 'running', finished_at = NULL");  // as before the last one
    auto const orders = s.at("orders").db.url();
    CHECK(rehearse(s.orders, orders, "1:confirm-order")["saga"] == "completed");
    CHECK(rehearse(s.orders, orders, "1:create-order.compensate")["saga"] == "compensated");
}

TEST_CASE("a rehearsed compensation says what it would give back")
{
    rehearsed_shop s;
    s.order("1");
    s.run();
    auto const data = R"({"id": "o-1", "customer": "ann", "item": "pen", "sku": "pen", "quantity": 1, "cents": 100})";
    auto const report = s.rehearsed("1:charge-payment.compensate", data);
    INFO(report.dump(2));
    CHECK(report["ends"] == "done");
    CHECK(table_of(report, "public.wallet")["rows"][0]["after"]["cents"] == 1000);
    CHECK(table_of(report, "public.charge")["rows"][0]["after"]["kind"] == "refund");
}

TEST_CASE("a compensation that is parked is rehearsed as its replay would run it")
{
    rehearsed_shop s;
    s.at("shipping").db.run("UPDATE stock SET free = 0");
    auto given_up = skald::test::delivery_of(s.order_up_to("charge-payment.compensate"));
    given_up.given_up = true;
    s.at("payments").process(given_up);
    s.run();
    REQUIRE(s.parked() == "payments|delivery_limit|1");
    auto const report = s.rehearsed("1:charge-payment.compensate");
    INFO(report.dump(2));
    CHECK(report["ends"] == "done");
    CHECK(table_of(report, "public.wallet")["rows"][0]["after"]["cents"] == 1000);
}

TEST_CASE("a step of another service is not rehearsed where its saga was started")
{
    rehearsed_shop s;
    s.order("1");
    s.run();
    CHECK_THROWS_WITH_AS(rehearse(s.orders, s.at("orders").db.url(), "1:charge-payment"),
                         doctest::Contains("charge-payment is a step of payments: rehearse it there"),
                         skald::configuration_error);
}

TEST_CASE("a thousand rehearsals leave every row where it was")
{
    rehearsed_shop s;
    s.park_charge();
    auto const before = every_row(s.db());
    for (int n = 0; n < 1'000; ++n) REQUIRE(rehearse(s.payments, s.db().url(), "1:charge-payment")["ends"] == "done");
    CHECK(every_row(s.db()) == before);
}

TEST_CASE("a step that the service does not host is refused as such")
{
    rehearsed_shop s;
    CHECK_THROWS_WITH_AS(s.rehearsed("1:no-step"), doctest::Contains("payments hosts no step no-step"),
                         skald::configuration_error);
}

TEST_CASE("a rehearsal in the database of another service is refused")
{
    rehearsed_shop s;
    s.park_charge();
    CHECK_THROWS_WITH_AS(rehearse(s.payments, s.at("orders").db.url(), "1:charge-payment"),
                         doctest::Contains("check DATABASE_URL"), skald::configuration_error);
}

TEST_CASE("a parked delivery that an outsider may have sent is not rehearsed, and not taken for the genuine one")
{
    rehearsed_shop s;
    s.park_charge();
    auto const id = s.db().one("SELECT id FROM skald.parked");
    auto const as = [&](std::string const& reason) {
        s.db().run("UPDATE skald.parked SET reason = '" + reason + "' WHERE id = " + id);
    };
    for (std::string const reason : {"unsigned", "forged"})
        s.db().run("INSERT INTO skald.parked (scope, key, step, reason, error, message_id, type, content_type, body, "
                   "headers, attempts, fingerprint) SELECT scope, key, step, '" +
                   reason +
                   "', error, message_id, type, content_type, "
                   "convert_to(replace(convert_from(body, 'UTF8'), '100', '1'), 'UTF8'), headers, attempts, "
                   "sha256(reason::bytea) FROM skald.parked WHERE id = " +
                   id);
    auto report = s.rehearsed("1:charge-payment");
    CHECK(report["from"] == "parked delivery " + id);
    CHECK(table_of(report, "public.wallet")["rows"][0]["after"]["cents"] == 900);
    CHECK(says(report["notes"], "`skald parked replay " + id + "`;"));
    as("transaction_ended");
    CHECK(says(s.rehearsed("1:charge-payment")["notes"], "`skald parked replay " + id + " --yes`;"));
    s.db().run("DELETE FROM skald.parked WHERE reason IN ('unsigned', 'forged')");
    as("unsigned");
    for (auto const* const part : {"it has no signature", "--data FILE"})
        CHECK_THROWS_WITH_AS(s.rehearsed("1:charge-payment"), doctest::Contains(part), skald::configuration_error);
    as("forged");
    CHECK_THROWS_WITH_AS(s.rehearsed("1:charge-payment"), doctest::Contains("its signature is not valid"),
                         skald::configuration_error);
}

TEST_CASE("a message of a handler is not rehearsed, and the refusal says that handlers are not")
{
    rehearsed_shop s;
    s.park_charge();
    s.db().run("UPDATE skald.parked SET key = 'm-1', step = 'payment-created', handler = 'payment-created'");
    CHECK_THROWS_WITH_AS(s.rehearsed("m-1:payment-created"), doctest::Contains("hosts no step payment-created"),
                         skald::configuration_error);
    s.payments.on<order_saga::order>("payment-created", [](skald::message_context&, order_saga::order const&) {});
    CHECK_THROWS_WITH_AS(s.rehearsed("m-1:payment-created"),
                         doctest::Contains("payment-created is a message handler: only steps are rehearsed"),
                         skald::configuration_error);
}

TEST_CASE("a rehearsal that can't read a parked delivery for a lock says which session holds it")
{
    rehearsed_shop s;
    s.park_charge();
    pqxx::connection other{s.db().url()};
    pqxx::work holding{other};
    holding.exec("SELECT FROM skald.parked FOR UPDATE");
    auto const report = rehearse(s.payments, s.db().url(), "1:charge-payment");
    INFO(report.dump(2));
    CHECK(report["ends"] == "locked");
    REQUIRE(report["waited_for"].size() == 1);
    CHECK(report["waited_for"][0]["pid"] == other.backendpid());
}
