// What `skald parked show` advises can be done, and is no way round in a circle.
#include "admin/parked_deliveries.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

#include <regex>

using skald::test::stepped_shop;

namespace {

class advised_shop : public stepped_shop
{
public:
    /// The message for the charge of saga 1, which nobody has taken.
    skald::core::message charge()
    {
        auto m = order_up_to("charge-payment");
        at("payments").take_all();
        return m;
    }

    void process(skald::core::message const& m, bool given_up = false)
    {
        auto delivery = skald::test::delivery_of(m);
        delivery.given_up = given_up;
        at("payments").process(delivery);
        run();
    }

    /// The advice for the newest one there.
    std::string advice(std::string const& where = "payments")
    {
        skald::postgres::connection c{{.url = at(where).db.url()}};
        return skald::admin::show_parked(c, newest(where))->at("advice");
    }

    /// Does each of the commands in it, and takes it back: "replay drop ".
    std::string tried(std::string const& where = "payments")
    {
        skald::postgres::connection c{{.url = at(where).db.url()}};
        auto const id = newest(where);
        auto const text = advice(where);
        static std::regex const command{"`skald parked (replay|drop) [0-9]+(?: --reason TEXT)?( --yes)?( --vouch)?`"};
        std::string verbs;
        for (std::sregex_iterator it{text.begin(), text.end(), command}, end; it != end; ++it) {
            bool const forced = (*it)[2].matched;
            c.run("BEGIN");
            auto const refused = (*it)[1] == "drop"
                                     ? skald::admin::drop_parked(c, id, "a test", "eve", forced)
                                     : skald::admin::replay_parked(c, id, "eve", forced, (*it)[3].matched);
            c.run("ROLLBACK");
            CHECK_MESSAGE(!refused, text, " -> ", refused.value_or(""));
            verbs += (*it)[1].str() + ' ';
        }
        return verbs;
    }

    static bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

private:
    std::int64_t newest(std::string const& where)
    {
        return std::stoll(at(where).db.one("SELECT max(id) FROM skald.parked"));
    }
};

}  // namespace

TEST_CASE("of whatever a step is parked for, the advice is not refused")
{
    advised_shop s;
    s.process(s.charge(), true);
    auto const& db = s.at("payments").db;
    for (auto const& [reason, verbs] :
         std::vector<std::pair<std::string, std::string>>{{"attempts_exhausted", "replay "},
                                                          {"delivery_limit", "replay "},
                                                          {"unprocessable", "replay "},
                                                          {"transaction_ended", "replay "},
                                                          {"unknown_step", "replay "},
                                                          {"body_missing", "replay "},
                                                          {"body_damaged", "replay "},
                                                          {"malformed", "replay drop "},
                                                          {"closed", "drop "},
                                                          {"mismatch", "drop "},
                                                          {"unsigned", "replay drop "},
                                                          {"forged", "replay drop "}}) {
        CAPTURE(reason);
        db.run("UPDATE skald.parked SET reason = '" + reason + "'");
        CHECK(s.tried() == verbs);
    }
    db.run("UPDATE skald.parked SET parked_at = parked_at - interval '40 days'");
    CHECK(s.tried() == "drop ");
    db.run("UPDATE skald.parked SET parked_at = clock_timestamp();"
           "UPDATE skald.idempotency SET status = 'completed' WHERE step = 'charge-payment'");
    CHECK(s.tried() == "drop ");
}

TEST_CASE("headers that can't be read are not replayed, which would send the same ones again")
{
    advised_shop s;
    auto wrong = s.charge();
    for (auto& [name, value] : wrong.headers)
        if (name == "x-saga-itinerary") value = "nonsense";
    s.process(wrong);
    CHECK_MESSAGE(s.has(s.advice(), "A replay sends it as it came, and this version parks it again."), s.advice());
    CHECK(s.tried() == "drop ");

    std::erase_if(wrong.headers, [](auto const& header) { return header.first == "x-idempotency-key"; });
    s.process(wrong);
    CHECK_MESSAGE(s.has(s.advice(), "Its headers name no step of a saga"), s.advice());
    CHECK(s.tried() == "drop ");
}

TEST_CASE("a message that its itinerary sends elsewhere does not wait for a deployment here")
{
    advised_shop s;
    auto strayed = s.charge();
    for (auto& [name, value] : strayed.headers)
        if (name == "x-saga-itinerary") value = std::regex_replace(value, std::regex{"@payments"}, "@shipping");
    s.process(strayed);
    REQUIRE(s.parked() == "payments|unknown_step|1");
    CHECK_MESSAGE(s.has(s.advice(), "By its itinerary shipping runs this step"), s.advice());
    CHECK(s.tried() == "drop ");
}

TEST_CASE("of an unknown saga a report can be sent again, and that a step ran at home can't")
{
    advised_shop s;
    s.order("1");
    s.at("orders").db.run("DELETE FROM skald.saga");
    s.run();
    auto const& db = s.at("orders").db;
    REQUIRE(db.one("SELECT count(*) > 0 FROM skald.parked WHERE type = 'skald.progress'") == "t");
    db.run("DELETE FROM skald.parked WHERE type = 'skald.progress'");
    CHECK_MESSAGE(s.has(s.advice("orders"), "is no message that could be sent again"), s.advice("orders"));
    CHECK(s.tried("orders") == "drop ");

    for (auto const& m : s.transport().captured()) s.transport().inject(m);
    s.run();
    db.run("DELETE FROM skald.parked WHERE type <> 'skald.progress'");
    CHECK(s.tried("orders") == "replay drop ");
}

TEST_CASE("a message for a handler that has not come while it waited is parked for a replay, and so says its record")
{
    advised_shop s;
    auto const& db = s.at("payments").db;
    auto d = skald::test::delivery_of({"payments.on.entered",
                                       "m-1",
                                       "entered",
                                       "application/json",
                                       {{"skald-message-key", "k"}, {"skald-message-scope", ""}, {"x-attempt", "2"}},
                                       "{}"});
    d.handler = "entered";
    db.run(
        "INSERT INTO skald.idempotency (scope, key, step, status, home) VALUES ('', 'k', 'entered', 'retrying', '-')");
    d.message.headers.emplace_back("skald-waits-since", "2026-01-31T00:00:00.000000Z");
    s.at("payments").process(d);
    CHECK(db.rows("SELECT scope, key, step, handler, reason FROM skald.parked") == "|k|entered|entered|unknown_step");
    CHECK(db.one("SELECT status FROM skald.idempotency WHERE key = 'k'") == "parked");
    CHECK_MESSAGE(s.has(s.advice(), "Deploy a version of this service that has the message handler entered"),
                  s.advice());
    CHECK(s.tried() == "replay drop ");
    CHECK(db.one("SELECT skald.replay_parked(id) IS NULL FROM skald.parked") == "t");
    CHECK(db.rows("SELECT destination, headers->>'skald-message-key', headers ? 'skald-waits-since' FROM skald.outbox "
                  "WHERE destination LIKE '%.on.%'") == "payments.on.entered|k|f");
}

TEST_CASE("a message for a handler that is not there yet waits in the outbox, as it came, and nothing is parked")
{
    using namespace std::chrono_literals;
    advised_shop s;
    auto const& db = s.at("payments").db;
    auto d = skald::test::delivery_of({"payments.on.entered", "", "", "text/plain", {{"color", "red"}}, "{}"});
    d.handler = "entered";
    s.at("payments")
        .record({std::move(d), skald::runtime::unreadable_message{"unknown_step", "no such handler", 15min}});
    CHECK(db.rows("SELECT destination, content_type, headers->>'color', headers->>'skald-message-id', "
                  "headers ? 'skald-waits-since' FROM skald.outbox WHERE destination LIKE '%.on.%'") ==
          "payments.on.entered|text/plain|red||t");
    CHECK(db.one("SELECT count(*) FROM skald.parked") == "0");
}

TEST_CASE("what only its sender can send again is not replayed, and stays parked")
{
    advised_shop s;
    s.process(s.charge(), true);
    auto const& db = s.at("payments").db;
    auto const kept = db.one("SELECT headers FROM skald.parked");
    for (auto const& [change, why] : std::vector<std::pair<std::string, std::string>>{
             {"headers = headers || '{\"\": \"x\"}'", "a header has no name"},
             {"headers = headers || jsonb_build_object(repeat('h', 300), 'x')", "the name of a header has over 255"},
             {"headers = headers || jsonb_build_object('skald-reply-to', repeat('q', 256))", "reply_to has over 255"},
             {"headers = headers || jsonb_build_object('h', repeat('x', 128000))", "its headers have over 125 KiB"},
             {"body = convert_to(repeat('x', 1048577), 'UTF8')", "its body has over 1 MiB"}}) {
        CAPTURE(why);
        db.run("UPDATE skald.parked SET " + change);
        CHECK_MESSAGE(s.has(s.advice(), "It can't be sent again: "), s.advice());
        CHECK_MESSAGE(s.has(s.advice(), why), s.advice());
        CHECK(s.tried() == "drop ");
        CHECK(s.has(db.one("SELECT skald.replay_parked(id, forced => true) FROM skald.parked"), why));
        db.run("UPDATE skald.parked SET body = '{}', headers = '" + kept + "'");
    }
    CHECK(db.one("SELECT skald.replay_parked(id) IS NULL FROM skald.parked") == "t");
}
