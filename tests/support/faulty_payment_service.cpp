// The service `payments` of the order example, whose step misbehaves for customers whose name says so: the part before
// its first dash. All others are served as in the example.
#include "examples/order_saga/payment_steps.hpp"
#include "order_tables.hpp"
#include "support/charge_with.hpp"

#include <pqxx/except>

#include <csignal>
#include <stdexcept>
#include <string>
#include <utility>

#include <sys/resource.h>

namespace {

using namespace order_saga;
using namespace std::chrono_literals;

std::string_view habit_of(order const& o)
{
    return std::string_view{o.customer}.substr(0, o.customer.find('-'));
}

// Until the test takes the customer out of the table, between two polls. Not by a lock: every way to wait for one has a
// timeout.
void wait_at_gate(skald::step_context& ctx, order const& o)
{
    while (ctx.sql("SELECT FROM gate WHERE customer = $1", o.customer).size() > 0) ctx.sql("SELECT pg_sleep(0.005)");
}

class faulty_charge final : public skald::compensatable_step<order>
{
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        auto const habit = habit_of(o);
        if (habit == "deadly") die();
        if (habit == "gated") wait_at_gate(ctx, o);
        if (habit == "snoozes" && nap(ctx)) return skald::snooze(10ms);
        auto const ended = genuine().execute(ctx, o);
        if (habit == "broken" || (habit == "flaky" && ctx.attempt() == 1))
            throw std::runtime_error{"the till is jammed"};
        if (habit == "swallows_error") swallow_an_error(ctx);
        if (habit == "commits_itself") ctx.sql("COMMIT");
        return ended;
    }

    void compensate(skald::step_context& ctx, order& o) const override
    {
        genuine().compensate(ctx, o);
        auto const habit = habit_of(o);
        if ((habit == "undo_fails_once" && ctx.attempt() == 1) || (habit == "stubborn" && !is_looked_after(ctx)))
            throw std::runtime_error{"the till is jammed"};
    }

    static skald::compensatable_step<order> const& genuine()
    {
        static charge_payment const one;
        return one;
    }

    // Every time, in every process: the worst kind of poison message.
    static void die()
    {
        rlimit const no_core{};
        ::setrlimit(RLIMIT_CORE, &no_core);
        std::raise(SIGSEGV);
    }

    // A sequence is not rolled back: every second call overall is a snooze.
    static bool nap(skald::step_context& ctx) { return ctx.sql("SELECT nextval('naps')")[0][0].as<long>() % 2 == 1; }

    // An operator has given a command to retry.
    static bool is_looked_after(skald::step_context& ctx)
    {
        return ctx.sql("SELECT count(*) FROM skald.audit WHERE key = $1 AND verb = 'saga retry'", ctx.saga_key())[0][0]
                   .as<int>() > 0;
    }

    // From here on the transaction is aborted, and its COMMIT would silently be a ROLLBACK.
    static void swallow_an_error(skald::step_context& ctx)
    {
        try {
            ctx.sql("SELECT 1 / $1::integer", 0);
        }
        catch (pqxx::sql_error const&) {
        }
    }
};

skald::service with_tables()
{
    skald::service s{"payments"};
    s.migrate("0001_payments", tables::payments)
        .migrate("0002_naps", "CREATE SEQUENCE naps")
        .migrate("0003_gate", "CREATE TABLE gate (customer text PRIMARY KEY)");
    return s;
}

// Everything is quick: a lease, a look, an open breaker, and the time until a saga is `unknown`.
skald::service payments_by_gateway(gateway_address const& address)
{
    gateway_client const gateway{address, {.whole_call = 1s}};
    charge_with charge{gateway};
    charge.before_call = [](auto& ctx) { ctx.heartbeat(nlohmann::json{{"attempt", ctx.attempt()}}); };
    charge.before_settle = [](auto& ctx, auto& o) {
        if (habit_of(o) == "gated") wait_at_gate(ctx, o);
    };
    auto s = with_tables();
    s.dependency("gateway", {.failures = 0.9, .open_first = 100ms, .open_longest = 500ms})
        .host(place_order, steps::charge_payment, std::move(charge), refund_by_gateway{gateway},
              {.retry = {.attempts_max = 20, .first = 20ms, .longest = 500ms},
               .prefetch = 3,
               .call = {.dependency = "gateway",
                        .lease = 1'500ms,
                        .look_first = 50ms,
                        .look_longest = 500ms,
                        .unknown_after = 3s}});
    return s;
}

struct consent
{
    std::string by;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(consent, by)

// Asks somebody before it charges. What it does is written down each time: only the guard keeps it from a second.
class asked_first final : public skald::wait_step<order, consent>
{
public:
    explicit asked_first(std::chrono::milliseconds longest) : longest_{longest} {}

private:
    skald::outcome begin(skald::step_context& ctx, order& o) const override
    {
        note(ctx, o, "begun");
        return skald::done();
    }
    std::chrono::milliseconds timeout(order const&) const override { return longest_; }
    skald::outcome arrived(skald::step_context& ctx, order& o, consent const&) const override
    {
        note(ctx, o, "approved");
        charge_payment const genuine;
        return static_cast<skald::compensatable_step<order> const&>(genuine).execute(ctx, o);
    }
    skald::outcome timed_out(skald::step_context&, order&) const override { return skald::reject("nobody came"); }
    void abandon(skald::step_context& ctx, order& o) const override { note(ctx, o, "abandoned"); }

    static void note(skald::step_context& ctx, order const& o, char const* what)
    {
        ctx.sql("INSERT INTO waited VALUES ($1, $2)", o.customer, what);
    }

    std::chrono::milliseconds longest_;
};

skald::service payments_that_wait(std::chrono::milliseconds longest)
{
    auto s = with_tables();
    s.migrate("0004_waited", "CREATE TABLE waited (customer text NOT NULL, what text NOT NULL)")
        .host(place_order, steps::charge_payment, asked_first{longest});
    return s;
}

skald::service payments()
{
    auto s = with_tables();
    s.host(place_order, steps::charge_payment, faulty_charge{},
           {.retry = {.attempts_max = 3, .first = 20ms, .longest = 40ms}, .prefetch = 3});
    return s;
}

}  // namespace

int main(int argc, char** argv)
{
    std::string gateway, wait;
    auto const make = [&] {
        if (!wait.empty()) return payments_that_wait(std::chrono::milliseconds{std::stoi(wait)});
        return gateway.empty() ? payments() : payments_by_gateway(parse_gateway_address(gateway));
    };
    return skald::run_service(make, argc, argv,
                              {{"--gateway", &gateway, "HOST:PORT of a provider that charges"},
                               {"--wait", &wait, "so many ms in which somebody has to approve each charge"}});
}
