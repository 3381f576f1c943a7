// What a saga's home learns of a delivery that could not be read, was put back, dropped, or closed.
#include "admin/commands.hpp"
#include "admin/parked_deliveries.hpp"
#include "admin/saga_view.hpp"
#include "support/orders.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using skald::test::stepped_shop;

namespace {

class reporting_shop : public stepped_shop
{
public:
    /// Saga 1, whose `step` arrives at its service with a header that can't be read.
    void spoil(std::string const& step, std::string const& header = "x-saga-itinerary")
    {
        auto spoiled = sent(step);
        for (auto& [name, value] : spoiled.headers)
            if (name == header) value = "nonsense";
        at(spoiled.destination).process(skald::test::delivery_of(spoiled));
        run();
    }

    /// The message of saga 1 for that step, which is not delivered.
    skald::core::message sent(std::string const& step)
    {
        auto m = order_up_to(step);
        at(m.destination).take_all();
        return m;
    }

    std::string explanation() { return skald::test::explanation_of(at("orders").db.url()); }

    std::string drop(std::string const& where, bool forced = true)
    {
        return first(where, forced ? "SELECT skald.drop_parked(id, 'a test', 'eve', true) FROM skald.parked"
                                   : "SELECT skald.drop_parked(id, 'a test', 'eve') FROM skald.parked");
    }

    std::string replay(std::string const& where)
    {
        return first(where, "SELECT skald.replay_parked(id, 'eve') FROM skald.parked");
    }

    void command(std::string const& action) { CHECK(skald::test::give_order(at("orders").db.url(), action) == ""); }

    void close()
    {
        skald::postgres::connection c{{.url = at("orders").db.url()}};
        CHECK_FALSE(skald::admin::close(c, "completed", {"", {"", "1"}, "by hand", "eve"}).contains("refused"));
    }

    std::string known(std::string const& step)
    {
        return at("orders").db.rows("SELECT status, error FROM skald.known_steps('', '1') WHERE step = '" + step + "'");
    }

    static bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

private:
    std::string first(std::string const& where, std::string const& query)
    {
        auto const said = at(where).db.rows(query);
        run();
        return said;
    }
};

}  // namespace

TEST_CASE("a delivery whose headers can't be read makes its saga stuck, as long as they name its home")
{
    reporting_shop s;
    std::string step, where;
    SUBCASE("in another service")
    {
        step = "charge-payment";
        where = "payments";
    }
    SUBCASE("at home")
    {
        step = "confirm-order";
        where = "orders";
    }
    s.spoil(step);
    CHECK(s.parked() == where + "|malformed|1");
    CHECK(s.saga_status("1") == "stuck");
    CHECK_MESSAGE(s.has(s.explanation(), "stuck: " + step + " was parked at " + where), s.explanation());
    CHECK_MESSAGE(s.has(s.explanation(), "header x-saga-itinerary is missing or malformed"), s.explanation());

    CHECK_MESSAGE(s.has(s.drop(where, false), "saga 1 is stuck on it"), "it is not dropped by mistake");
    CHECK(s.drop(where).empty());
    CHECK(s.saga_status("1") == "stuck");
    CHECK_MESSAGE(s.has(s.explanation(), "its delivery was dropped by eve as"), s.explanation());
    CHECK_MESSAGE(s.has(s.explanation(), "Nothing is left to retry"), s.explanation());
}

TEST_CASE("the right message runs after one that could not be read, and its saga is stuck no longer")
{
    reporting_shop s;
    auto const right = s.sent("charge-payment");
    auto wrong = right;
    std::erase_if(wrong.headers, [](auto const& header) { return header.first == "x-saga-itinerary"; });
    s.at("payments").process(skald::test::delivery_of(wrong));
    s.run();
    REQUIRE(s.saga_status("1") == "stuck");
    s.at("payments").process(skald::test::delivery_of(right));
    s.run();
    CHECK(s.saga_status("1") == "completed");
}

TEST_CASE("a copy that can't be read of a message that has run changes nothing at home")
{
    reporting_shop s;
    auto wrong = s.sent("charge-payment");
    s.at("payments").process(skald::test::delivery_of(wrong));
    std::erase_if(wrong.headers, [](auto const& header) { return header.first == "x-saga-itinerary"; });
    s.at("payments").process(skald::test::delivery_of(wrong));
    s.at("payments").relay_due();
    while (s.at("orders").process_one()) continue;
    CHECK(s.saga_status("1") == "running");
    CHECK(s.known("charge-payment") == "completed|");
    CHECK(s.drop("payments", false).empty());
    CHECK(s.saga_status("1") == "completed");
}

TEST_CASE("a delivery whose home or key can't be read is reported to no one")
{
    reporting_shop s;
    std::string header;
    SUBCASE("home")
    {
        header = "x-saga-home";
    }
    SUBCASE("key")
    {
        header = "x-idempotency-key";
    }
    s.sent("charge-payment");
    auto wrong = s.last_sent("charge-payment");
    for (auto& [name, value] : wrong.headers)
        if (name == header) value = "No Such Name";
    s.at("payments").process(skald::test::delivery_of(wrong));
    s.run();
    CHECK(s.parked() == "payments|malformed|1");
    CHECK(s.saga_status("1") == "running");
    CHECK(s.drop("payments", false).empty());
}

TEST_CASE("a step that was put back at its home is said to be that, and not to have failed 0 times")
{
    reporting_shop s;
    s.order("1");
    s.at("orders").relay_due();
    s.at("orders").process_one();
    s.at("orders").db.run("UPDATE skald.idempotency SET status = 'parked', attempts = 3, error = 'no stock' "
                          "WHERE step = 'create-order';"
                          "INSERT INTO skald.parked (key, step, reason, message_id, type, headers, body, fingerprint) "
                          "SELECT '1', 'create-order', 'attempts_exhausted', '1:create-order', 'create-order', "
                          "'{\"x-saga-home\": \"orders\", \"x-saga-scope\": \"\"}', '', sha256('')");
    CHECK(s.at("orders").db.one("SELECT skald.replay_parked(id, 'eve') IS NULL FROM skald.parked") == "t");
    CHECK(s.known("create-order") == "retrying|put back");
    CHECK_MESSAGE(s.has(s.explanation(), "create-order was put back by an operator at"), s.explanation());
    CHECK_MESSAGE(!s.has(s.explanation(), "0 times"), s.explanation());
}

TEST_CASE("a step that was put back and whose saga was then closed is `cancelled` at home too")
{
    reporting_shop s;
    s.sent("charge-payment");
    auto given_up = skald::test::delivery_of(s.last_sent("charge-payment"));
    given_up.given_up = true;
    s.at("payments").process(given_up);
    s.run();
    REQUIRE(s.saga_status("1") == "stuck");
    s.command("pause");
    s.command("retry");
    s.run();
    REQUIRE(s.known("charge-payment") == "retrying|put back");
    s.close();
    s.run();
    CHECK_MESSAGE(s.has(s.known("charge-payment"), "cancelled|closed by an operator (eve as "),
                  s.known("charge-payment"));
    CHECK(s.saga_status("1") == "completed");
}

TEST_CASE("when what turned up of a closed saga is dropped, its home no longer says that it is parked")
{
    reporting_shop s;
    auto const late = s.sent("charge-payment");
    s.command("pause");
    s.close();
    s.run();
    s.at("payments").process(skald::test::delivery_of(late));
    s.run();
    REQUIRE(s.parked() == "payments|closed|1");
    REQUIRE_MESSAGE(s.has(s.explanation(), "turned up at payments"), s.explanation());
    CHECK(s.drop("payments", false).empty());
    CHECK_MESSAGE(!s.has(s.explanation(), "turned up at payments"), s.explanation());
}
