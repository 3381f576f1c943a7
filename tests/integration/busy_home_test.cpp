// The same at a saga's home, and for what is told of sagas: it is never taken for malformed because a table was busy,
// but because something is missing.
#include "support/busy_tables.hpp"
#include "support/stepped_shop.hpp"

using namespace skald::test;

TEST_CASE("what services report of a saga waits for as long as a table of the home's is locked")
{
    for (std::string const table : {"skald.progress", "skald.saga"}) {
        stepped_shop s;
        s.order_up_to("charge-payment");
        s.at("payments").process_one();
        s.at("payments").relay_due();
        auto t = only_task(s.at("orders"));
        REQUIRE(t.delivery.message.type == skald::core::progress_type);
        check_waits_out(s.at("orders"), t, table);
        s.run();
        CHECK(s.saga_status("1") == "completed");
    }
}

TEST_CASE("what is to be forgotten, and what has been, waits for as long as its table is locked")
{
    struct
    {
        std::string type, table;
    } const reports[]{{std::string{skald::core::expire_type}, "skald.ended"},
                      {std::string{skald::core::expired_type}, "skald.saga"}};
    for (auto const& [type, table] : reports) {
        stepped_shop s;
        skald::core::message m;
        m.id = "m1";
        m.type = type;
        m.body = R"([{"scope":"","key":"1","home":"orders","service":"payments","ended_at":"2026-01-01T00:00:00Z",)"
                 R"("started_at":"2026-01-01T00:00:00Z","steps":["charge-payment"]}])";
        auto tasks = s.at("payments").route({skald::test::delivery_of(m)});
        check_waits_out(s.at("payments"), tasks.front(), table);
    }
}

TEST_CASE("a command for a saga waits for as long as its table is locked")
{
    stepped_shop s;
    s.order("1");
    s.at("orders").db.run("SELECT skald.request_control('cancel', '', '1', 'changed my mind', 'ann')");
    s.at("orders").relay_due();
    auto const m = s.last_sent("skald.control");
    auto tasks = s.at(m.destination).route({skald::test::delivery_of(m)});
    check_waits_out(s.at(m.destination), tasks.front(), "skald.control");
}

TEST_CASE("an order to forget, or its answer, that lacks something is parked")
{
    stepped_shop s;
    for (std::string const type : {"skald.expire", "skald.expired"})
        for (std::string const body :
             {"{}", "[{\"key\": \"1\"}]", "[{\"scope\": \"\", \"key\": \"1\", \"ended_at\": 7}]", "x"}) {
            CAPTURE(body);
            skald::core::message m;
            m.type = type;
            m.id = type;
            m.body = body;
            s.at("payments").process(skald::test::delivery_of(m));
        }
    CHECK(s.parked() == "payments|malformed|8");
}
