// What a step commits goes to the broker from memory; its row in a real outbox is the insurance, whoever dies when.
#include "postgres/postgres_store.hpp"
#include "runtime/executor.hpp"
#include "runtime/outbound.hpp"
#include "runtime/sender.hpp"
#include "support/doubtful_store.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

using namespace skald;
using namespace std::chrono_literals;

namespace {

/// The payments service as a process has it, with a sender; its threads stepped by hand. Its charge is waiting.
struct sending_payments
{
    sending_payments()
    {
        steps.add("place-order", "charge-payment",
                  {std::make_unique<detail::typed_step<order_saga::order, order_saga::charge_payment>>(
                       order_saga::charge_payment{}),
                   {},
                   step_kind::compensatable,
                   1});
        shop.order("1");
        shop.at("orders").relay_due();
        shop.at("orders").settle_one();
        shop.at("orders").relay_due();
        charge = test::world::delivery_of(shop.last_sent("charge-payment"));
        sender.turn(0ms);
    }

    test::database const& db() { return shop.at("payments").db; }
    std::string rows() { return db().one("SELECT count(*) FROM skald.outbox"); }
    std::size_t at_broker() { return shop.transport().waiting("shipping"); }

    void send()
    {
        sender.turn(0ms);
        sender.turn(0ms);
    }

    /// The process's own relay, once.
    void relay()
    {
        postgres::postgres_outbox rows{{.url = db().url()}};
        auto const other = shop.transport().open_publisher();
        runtime::stop_flag at_once;
        at_once.stop();
        runtime::relay{{}, {rows}, *other, out, at_once, log, std::mt19937_64{1}}.run();
    }

    /// Head starts are over, and whatever came of it is done; each effect is there once.
    void end_well()
    {
        shop.at("payments").make_due();
        shop.run();
        CHECK(shop.saga_status("1") == "completed");
        CHECK(db().rows("SELECT kind, count(*) FROM charge GROUP BY 1") == "charge|1");
        CHECK(shop.at("shipping").db.one("SELECT count(*) FROM shipment") == "1");
        CHECK(rows() == "0");
    }

    test::stepped_shop shop;
    core::silent_logger log;
    runtime::registry steps;
    test::doubtful_store store{db().url()};
    runtime::outbound out{{.head_start = 1h}};
    runtime::executor executor{"payments", steps, store, out, log, std::mt19937_64{1}};
    std::unique_ptr<ports::publisher> publisher{shop.transport().open_publisher()};
    runtime::stop_flag stop;
    runtime::sender sender{{.told_after = 0ms}, out, *publisher, stop, log};
    ports::delivery charge;
};

}  // namespace

TEST_CASE("what a step commits is sent from memory, no relay takes its row meanwhile, and the confirmed row is deleted")
{
    sending_payments p;
    p.executor.settle(p.charge);
    CHECK(p.rows() == "2");  // the next step's message, and word to the home
    CHECK(p.db().one("SELECT count(*) FROM skald.outbox WHERE due_at > clock_timestamp() + interval '59 minutes'") ==
          "2");
    CHECK(p.shop.at("payments").relay_due() == 0);
    CHECK(p.at_broker() == 0);
    p.send();
    CHECK(p.at_broker() == 1);
    CHECK(p.rows() == "2");
    p.relay();
    CHECK(p.rows() == "0");
    CHECK(p.at_broker() == 1);
    p.end_well();
}

TEST_CASE("a process that dies before it has sent what it committed leaves it to the relay")
{
    sending_payments p;
    p.executor.settle(p.charge);
    p.out.close();
    p.send();
    CHECK(p.at_broker() == 0);
    p.end_well();
}

TEST_CASE("a process that dies between the confirm and the delete has it sent twice, which the guard absorbs")
{
    sending_payments p;
    p.executor.settle(p.charge);
    p.send();
    CHECK(p.at_broker() == 1);
    p.shop.at("payments").make_due();
    p.shop.at("payments").relay_due();
    CHECK(p.at_broker() == 2);
    p.end_well();
}

TEST_CASE("nothing is handed over of a COMMIT in doubt, whether it came to pass or not")
{
    for (auto const loss : {test::doubtful_store::loses::the_answer, test::doubtful_store::loses::the_commit}) {
        sending_payments p;
        p.store.next = loss;
        CHECK_THROWS_AS(p.executor.settle(p.charge), ports::fault);
        p.send();
        CHECK(p.at_broker() == 0);
        p.executor.settle(p.charge);  // as the lane does: through the guard again
        p.send();
        CHECK(p.at_broker() == (loss == test::doubtful_store::loses::the_commit ? 1 : 0));
        p.end_well();
    }
}

TEST_CASE("a message that the broker refuses from memory stays with its reason, and comes later")
{
    sending_payments p;
    p.executor.settle(p.charge);
    p.shop.transport().nack_next(1);
    p.send();
    p.relay();
    CHECK(p.db().rows("SELECT type, attempts, error FROM skald.outbox") ==
          "arrange-shipping|1|the broker did not take the message");
    CHECK(p.db().one("SELECT due_at < clock_timestamp() + interval '1 minute' FROM skald.outbox") == "t");
    p.end_well();
}

TEST_CASE("rows that are numbered before they are inserted share no number with others")
{
    test::database const db;
    postgres::postgres_store lane{{.url = db.url()}};
    ports::store& store = lane;
    for (int i = 0; i < 300; ++i) {
        store.begin({});
        ports::changes what;
        core::message m;
        m.destination = "shipping";
        m.type = "a-step";
        m.id = "k" + std::to_string(i);
        what.messages.push_back({m, "", "saga", "k", {}, store.new_rows(1).at(0), 1h});
        store.commit(what);
        db.run("SELECT skald.enqueue('shipping', 'a-step', 'other', '{}')");
    }
    CHECK(db.one("SELECT count(DISTINCT id) FROM skald.outbox") == "600");
}

TEST_CASE("a transaction that is aborted already gives no numbers, and says why it can't commit as before")
{
    test::database const db;
    postgres::postgres_store lane{{.url = db.url()}};
    ports::store& store = lane;
    store.begin({});
    CHECK_THROWS_AS(store.unit().tx().exec("SELECT 1 / 0"), pqxx::sql_error);
    CHECK(store.new_rows(1).empty());
    CHECK_THROWS_AS(store.commit({}), ports::fault);
}
