// F2, G10: a connection that is lost while COMMIT is under way. Nobody on this side knows; the guard finds out.
#include "postgres/postgres_store.hpp"
#include "runtime/executor.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>

using namespace skald;

namespace {

// A store that loses its connection at COMMIT: behind it, or before it.
class doubtful_store final : public ports::store
{
public:
    enum class loses { nothing, the_answer, the_commit };

    explicit doubtful_store(std::string const& url) : inner_{{.url = url}} {}

    void connect() override { inner_.connect(); }
    std::vector<ports::claim_answer> begin(std::span<ports::claim_item const> items,
                                           std::optional<std::chrono::milliseconds> wait) override
    {
        return inner_.begin(items, wait);
    }
    detail::unit_of_work& unit() override { return inner_.unit(); }
    std::string const& claimed_at() const override { return inner_.claimed_at(); }
    void write(ports::changes const& what) override { inner_.write(what); }
    bool is_still_claimed() noexcept override { return inner_.is_still_claimed(); }
    void rollback() noexcept override { inner_.rollback(); }
    std::optional<ports::stored_response> find_response(core::saga_id const& saga) override
    {
        return inner_.find_response(saga);
    }
    ports::fault classify_current() override { return inner_.classify_current(); }

    void commit(ports::changes const& what) override
    {
        auto const loss = std::exchange(next, loses::nothing);
        if (loss == loses::the_commit) inner_.rollback();
        else inner_.commit(what);
        if (loss != loses::nothing) throw ports::fault{ports::fault_kind::in_doubt, "the connection was lost"};
    }

    loses next{loses::nothing};

private:
    postgres::postgres_store inner_;
};

void charge_in_doubt(doubtful_store::loses loss)
{
    test::stepped_shop s;
    s.order("1");
    s.at("orders").relay_due();
    s.at("orders").settle_one();
    s.at("orders").relay_due();
    auto const charge = test::world::delivery_of(s.last_sent("charge-payment"));

    runtime::registry steps;
    steps.add("place-order", "charge-payment",
              {std::make_unique<detail::typed_step<order_saga::order, order_saga::charge_payment>>(order_saga::charge_payment{}),
               {}, step_kind::compensatable, 1});
    runtime::wakeup wake;
    core::silent_logger log;
    doubtful_store store{s.at("payments").db.url()};
    runtime::executor executor{"payments", steps, store, wake, log, std::mt19937_64{1}};

    store.next = loss;
    CHECK_THROWS_AS(executor.settle(charge), ports::fault);
    executor.settle(charge);
    CHECK(s.at("payments").db.rows("SELECT kind, count(*) FROM charge GROUP BY 1") == "charge|1");
    CHECK(s.at("payments").db.one("SELECT count(*) FROM skald.outbox WHERE type = 'arrange-shipping'") == "1");
    s.run();
    CHECK(s.saga_status("1") == "completed");
}

}  // namespace

TEST_CASE("a step that committed though its answer was lost does not run again")
{
    charge_in_doubt(doubtful_store::loses::the_answer);
}

TEST_CASE("a step that did not commit though nobody knows runs again")
{
    charge_in_doubt(doubtful_store::loses::the_commit);
}
