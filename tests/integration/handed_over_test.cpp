// What a step commits goes to the broker from memory; its row in a real outbox is the insurance, whoever dies when.
#include "postgres/postgres_store.hpp"
#include "runtime/executor.hpp"
#include "runtime/memory_source.hpp"
#include "runtime/publish_loop.hpp"
#include "support/doubtful_store.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

using namespace skald;
using namespace std::chrono_literals;

namespace {

/// Its process may die before it deletes.
struct mortal_outbox final : ports::outbox
{
    explicit mortal_outbox(postgres::connection_options options) : inner{std::move(options)} {}

    std::vector<row> take(std::size_t max) override { return inner.take(max); }
    void release() noexcept override { inner.release(); }
    void resolve(std::vector<std::int64_t> const& confirmed, std::vector<deferral> const& deferred) override
    {
        if (dies) throw ports::fault{ports::fault_kind::connection_lost, "killed"};
        inner.resolve(confirmed, deferred);
    }

    postgres::postgres_outbox inner;
    bool dies{};
};

/// The payments service as a process has it, its loop of memory stepped by hand. Its charge is waiting.
struct sending_payments
{
    sending_payments()
    {
        charge = test::delivery_of(shop.order_up_to("charge-payment"));
        loop.pass(0ms);
    }

    test::database const& db() { return shop.at("payments").db; }
    std::string rows() { return db().one("SELECT count(*) FROM skald.outbox"); }
    std::size_t at_broker() { return shop.transport().waiting("shipping"); }

    /// Sends what was committed, and has its rows deleted.
    void send()
    {
        do loop.pass(0ms);
        while (!out.is_idle());
    }

    void process() { shop.at("payments").process_on(executor, charge); }

    /// Grace periods are over, and whatever came of it is done; each effect is there once.
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
    test::doubtful_store store{db().url()};
    mortal_outbox insurance{{.url = db().url()}};
    runtime::memory_source out{{.grace_period = 1h, .delete_after = 0ms}, &insurance};
    runtime::executor executor{"payments", store, out, log, std::mt19937_64{1}};
    std::unique_ptr<ports::publisher> publisher{shop.transport().open_publisher()};
    runtime::stop_flag stop;
    runtime::publish_loop loop{{}, out, *publisher, stop, log, std::mt19937_64{1}};
    ports::delivery charge;
};

}  // namespace

TEST_CASE("what a step commits is sent from memory, no relay takes its row meanwhile, and the confirmed row is deleted")
{
    sending_payments p;
    p.process();
    CHECK(p.rows() == "2");  // the next step's message, and word to the home
    CHECK(p.db().one("SELECT count(*) FROM skald.outbox WHERE due_at > clock_timestamp() + interval '59 minutes'") ==
          "2");
    CHECK(p.shop.at("payments").relay_due() == 0);
    CHECK(p.at_broker() == 0);
    p.send();
    CHECK(p.at_broker() == 1);
    CHECK(p.rows() == "0");
    CHECK(p.at_broker() == 1);
    p.end_well();
}

TEST_CASE("a process that dies before it has sent what it committed leaves it to the relay")
{
    sending_payments p;
    p.process();
    p.out.close();
    p.send();
    CHECK(p.at_broker() == 0);
    p.end_well();
}

TEST_CASE("a process that dies between the confirm and the delete has it sent twice, which the guard absorbs")
{
    sending_payments p;
    p.process();
    p.insurance.dies = true;
    CHECK_THROWS_AS(p.send(), ports::fault);
    CHECK(p.at_broker() == 1);
    CHECK(p.rows() == "2");
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
        CHECK_THROWS_AS(p.process(), test::not_processed);
        p.send();
        CHECK(p.at_broker() == 0);
        p.process();  // as the lane does: through the guard again
        p.send();
        CHECK(p.at_broker() == (loss == test::doubtful_store::loses::the_commit ? 1 : 0));
        p.end_well();
    }
}

TEST_CASE("a message that the broker refuses from memory stays with its reason, and comes later")
{
    sending_payments p;
    p.process();
    p.shop.transport().nack_next(1);
    p.send();
    CHECK(p.db().rows("SELECT type, attempts, error FROM skald.outbox") ==
          "arrange-shipping|1|the broker did not take the message");
    CHECK(p.db().one("SELECT due_at < clock_timestamp() + interval '1 minute' FROM skald.outbox") == "t");
    p.end_well();
}

TEST_CASE("what is committed is sent and deleted while a relay has a batch of a backlog in its hands")
{
    sending_payments p;
    p.db().run("SELECT skald.enqueue('nobody', 'a-step', 'k' || i, '') FROM generate_series(1, 1000) AS i");
    postgres::postgres_outbox relay{{.url = p.db().url()}};
    CHECK(relay.take(500).size() == 500);
    p.process();
    CHECK(p.rows() == "1002");
    p.send();
    CHECK(p.at_broker() == 1);
    CHECK(p.rows() == "1000");
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
