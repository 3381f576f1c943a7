// A parked delivery that was written down is delivered again elsewhere, and does there what it did here.
#include "admin/parked_deliveries.hpp"
#include "core/recorded_delivery.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

#include <skald/errors.hpp>

using skald::test::completed;
using skald::test::stepped_shop;

namespace {

class recording_shop : public stepped_shop
{
public:
    /// What `skald parked export --all` prints at that service.
    std::string recording(std::string const& service)
    {
        skald::postgres::connection c{{.url = at(service).db.url()}};
        std::string lines;
        auto const page = skald::admin::list_parked(c, {});
        for (auto const& p : page["parked"]) lines += skald::admin::record_parked(c, p["id"]).value() + '\n';
        return lines;
    }

    /// Order 1, up to the message to the payments, which is lost on its way.
    skald::core::message order_whose_charge_is_lost()
    {
        auto m = order_up_to("charge-payment");
        at("payments").take_all();
        return m;
    }

    void park_as_given_up(skald::core::message m)
    {
        auto d = skald::test::delivery_of(std::move(m));
        d.given_up = true;
        at("payments").process(d);
    }

    std::string parked_in_full()
    {
        return at("payments")
            .db.rows("SELECT scope, key, step, reason, error, message_id, type, content_type, encode(body, 'hex'), "
                     "headers, attempts FROM skald.parked ORDER BY id");
    }
};

/// The same message, whatever the order of its headers, which the database does not keep.
bool same(skald::core::message const& a, skald::core::message const& b)
{
    return std::map(a.headers.begin(), a.headers.end()) == std::map(b.headers.begin(), b.headers.end()) &&
           a.id == b.id && a.type == b.type && a.content_type == b.content_type && a.destination == b.destination &&
           a.body == b.body;
}

}  // namespace

TEST_CASE("a recorded delivery is the message that was parked, and has the same effect in another system, once")
{
    std::string lines;
    {
        recording_shop production;
        auto const charge = production.order_whose_charge_is_lost();
        production.park_as_given_up(charge);
        lines = production.recording("payments");
        CHECK(same(skald::core::read_recorded(lines).at(0), charge));
        CHECK_MESSAGE(production.parked() == "payments|delivery_limit|1", "to be recorded changes nothing");
    }
    recording_shop elsewhere;
    elsewhere.order_whose_charge_is_lost();
    for (int i = 0; i < 3; ++i)
        for (auto const& m : skald::core::read_recorded(lines)) elsewhere.transport().inject(m);
    elsewhere.run();
    CHECK(elsewhere.effects() == completed);
    CHECK(elsewhere.saga_status("1") == "completed");
    CHECK(elsewhere.parked().empty());
}

TEST_CASE("a recorded delivery that is delivered again where it is parked does nothing: replay is for that")
{
    recording_shop s;
    s.park_as_given_up(s.order_whose_charge_is_lost());
    s.run();
    auto const before = s.parked_in_full();
    for (auto const& m : skald::core::read_recorded(s.recording("payments"))) s.transport().inject(m);
    s.run();
    CHECK(s.saga_status("1") == "stuck");
    CHECK(s.parked_in_full() == before);
    CHECK(s.at("payments").db.one("SELECT count(*) FROM charge") == "0");
}

TEST_CASE("a delivery of bytes that are no text is parked elsewhere as it was here, column by column")
{
    recording_shop production;
    auto charge = production.order_whose_charge_is_lost();
    charge.body = std::string{"\xff\0{", 3};
    charge.headers.emplace_back("note", "a\xfe\"b\"\n");
    production.transport().inject(charge);
    charge.headers.clear();
    charge.id.clear();
    charge.content_type = "image/png";
    production.transport().inject(charge);
    production.run();
    auto const lines = production.recording("payments");
    CHECK(lines.find("\"body_base64\":\"/wB7\"") != std::string::npos);

    recording_shop elsewhere;
    for (auto const& m : skald::core::read_recorded(lines)) elsewhere.transport().inject(m);
    while (elsewhere.at("payments").process_one()) continue;
    CHECK(elsewhere.parked() == "payments|malformed|2");
    CHECK(elsewhere.parked_in_full() == production.parked_in_full());
}

TEST_CASE("the step's record at that time is noted in a recording")
{
    recording_shop s;
    s.park_as_given_up(s.order_whose_charge_is_lost());
    auto const parked = nlohmann::json::parse(s.recording("payments"))["parked"];
    CHECK(parked["record"] == nlohmann::json{{"status", "parked"}, {"attempts", 1}, {"snoozes", 0}});
    CHECK(parked["step"] == "charge-payment");
    CHECK(parked["reason"] == "delivery_limit");
    s.at("payments").db.run("DELETE FROM skald.idempotency");
    CHECK(nlohmann::json::parse(s.recording("payments"))["parked"]["record"].is_null());
}

TEST_CASE("a database that does not say whose it is records nothing, and says what to do")
{
    recording_shop s;
    s.park_as_given_up(s.order_whose_charge_is_lost());
    s.at("payments").db.run("DELETE FROM skald.service");
    CHECK_THROWS_WITH_AS(s.recording("payments"), doctest::Contains("skald migrate --service"),
                         skald::configuration_error);
    s.at("payments").db.run("INSERT INTO skald.service (name) VALUES ('payments')");
    skald::postgres::connection c{{.url = s.at("payments").db.url()}};
    CHECK(!skald::admin::record_parked(c, 4711));
}
