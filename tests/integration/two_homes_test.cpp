// One key, two homes: each started a saga under it, and both come to the same services. The first one there has the
// key, the second is refused, so that both homes know; and no order or purge of one home touches what is the other's.
#include "support/orders.hpp"
#include "support/session.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

using skald::test::claim_sql;
using skald::test::completed;
using skald::test::database;
using skald::test::stepped_shop;

namespace {

class shop_with_two_homes : public stepped_shop
{
public:
    /// The same plan, started by another service.
    void order_from(std::string const& home, std::string const& id)
    {
        pqxx::connection c{at(home).db.url()};
        pqxx::work tx{c};
        skald::start(tx, order_saga::place_order, order_saga::order{id, "ann", "pen", 1, 100}, {"1", ""});
        tx.commit();
    }

    std::string saga_at(std::string const& home) { return at(home).db.one("SELECT status FROM skald.saga"); }
    std::string reason_at(std::string const& home) { return at(home).db.one("SELECT reason FROM skald.saga"); }

    std::string give(std::string const& home, std::string const& action)
    {
        return skald::test::give_order(at(home).db.url(), action);
    }
};

std::string homes(std::string const& names)
{
    return ", homes => ARRAY[" + names + "]";
}

}  // namespace

TEST_CASE_FIXTURE(shop_with_two_homes,
                  "of two sagas with one key and one body the second compensates, and its home hears why")
{
    order_from("orders", "o-1");
    run();
    order_from("shipping", "o-1");
    run();
    CHECK(effects() == completed);
    CHECK(saga_at("orders") == "completed");
    CHECK(saga_at("shipping") == "compensated");
    CHECK(reason_at("shipping") == "here the key 1 is that of a saga of orders");
    CHECK(parked().empty());
}

TEST_CASE_FIXTURE(shop_with_two_homes, "the same with other bodies, whichever is first at a service")
{
    order_from("shipping", "o-2");
    at("shipping").relay_due();
    REQUIRE(at("orders").process_one());  // the step create-order belongs to the saga of shipping now
    order_from("orders", "o-1");
    run();
    CHECK(effects() == "o-2|confirmed / 900 o-2|charge|1 / 4 o-2|1");
    CHECK(saga_at("shipping") == "completed");
    CHECK(saga_at("orders") == "compensated");
    CHECK(reason_at("orders") == "here the key 1 is that of a saga of shipping");
    CHECK(parked().empty());
}

TEST_CASE_FIXTURE(shop_with_two_homes, "a cancel meets the saga of the home that ordered it, and no other")
{
    order_from("orders", "o-1");
    at("orders").relay_due();
    REQUIRE(at("orders").process_one());  // the key is that of the saga of orders
    order_from("shipping", "o-2");
    CHECK(give("shipping", "cancel").empty());
    run();
    REQUIRE(at("payments").db.one("SELECT action || ' for ' || home FROM skald.control") == "cancel for shipping");
    CHECK(effects() == completed);
    CHECK(saga_at("orders") == "completed");
    CHECK(saga_at("shipping") == "compensated");
}

TEST_CASE("a claim for another home's saga is refused, and says whose the key is")
{
    database const db;
    CHECK(db.one(claim_sql("", "k", "pay", "a", homes("'orders'"))) == "fresh 1 true");
    CHECK(db.one(claim_sql("", "k", "pay", "a", homes("'orders'"))) == "duplicate 1 false");
    CHECK(db.one(claim_sql("", "k", "pay", "a", homes("'returns'"))) == "mismatch 1 false");
    CHECK(db.one(
              "SELECT cause || ' ' || reason FROM skald.claim(ARRAY[''], ARRAY['k'], ARRAY['pay'], ARRAY[sha256('a')]" +
              homes("'returns'") + ")") == "home orders");
    CHECK(db.one(claim_sql("", "k", "pay", "a")) == "duplicate 1 false");  // nobody said whose
}

TEST_CASE("another home's compensation undoes nothing, and is not in the way of the right one")
{
    database const db;
    db.run(claim_sql("", "k", "pay", "a", homes("'orders'")));
    CHECK(db.one(claim_sql("", "k", "pay.compensate", "a", homes("'returns'"))) == "mismatch 1 false");
    CHECK(db.one("SELECT count(*) FROM skald.idempotency") == "1");
    CHECK(db.one(claim_sql("", "k", "pay.compensate", "a", homes("'orders'"))) == "fresh 1 true");
}

TEST_CASE("of two homes' claims in one call the first has the key, as if they had come one after the other")
{
    database const db;
    CHECK(db.rows("SELECT result, cause FROM skald.claim(ARRAY['',''], ARRAY['k','k'], ARRAY['pay','pay'], "
                  "ARRAY[sha256('a'),sha256('a')], homes => ARRAY['returns','orders']) ORDER BY ord") ==
          "fresh|\nmismatch|home");
    CHECK(db.one("SELECT home FROM skald.idempotency") == "returns");
}

TEST_CASE("one key and one body, started with another definition in the same home, are a mismatch")
{
    database const db{"orders"};
    auto const start = [&](std::string const& definition) {
        return db.one("SELECT skald.start('', 'k', '" + definition +
                      "', 1, '{}', 'forward 1/1 pay@payments=pivot', sha256('{}'), "
                      "'payments', 'pay', '{}', '{}')");
    };
    CHECK(start("place-order") == "fresh");
    CHECK(start("place-order") == "duplicate");
    CHECK(start("return-order") == "mismatch");
}
