// Ends of calls that can't be recorded at once.
#include "external/bank.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

using namespace skald::test;

TEST_CASE("a large result is not kept in the row while its end can't be recorded: it is asked for again")
{
    bank_services all;
    int failures = 1;
    capture charging{all.gateway};
    charging.settles = [&](skald::step_context& ctx, purchase&, receipt const& r) -> skald::outcome {
        if (failures-- > 0) throw std::runtime_error{"a bug"};
        note(ctx, "settle of " + std::to_string(r.number.size()));
        return skald::done();
    };
    all.gateway.more = std::string(1024 * 1024, 'x');
    all.host(charging);
    all.start(buy, purchase{"p", 100}, "k");
    all.run_all();
    all.at("till").make_started_due();
    all.run_all();
    CHECK(all.gateway.charges.size() == 1);
    CHECK(all.gateway.looks == 1);
    CHECK(all.effects("till").find("settle of 3") != std::string::npos);  // "r-1", as the second answer was
    CHECK(all.saga_status("k") == "completed");
}

TEST_CASE("an end that can't be recorded is not forgotten, and the other side is not asked again for it")
{
    bank_services all;
    int failures = 5;  // more than the step has attempts
    capture charging{all.gateway};
    charging.settles = [&](skald::step_context& ctx, purchase& p, receipt const& r) -> skald::outcome {
        if (failures-- > 0) throw std::runtime_error{"a bug"};
        note(ctx, "settle " + r.number);
        p.receipt = r.number;
        return skald::done();
    };
    all.host(charging);
    all.start(buy, purchase{"p", 100}, "k");
    for (int n = 0; n < 10; ++n) {
        all.run_all();
        all.at("till").make_started_due();
    }
    CHECK(failures < 0);
    CHECK(all.gateway.charges.size() == 1);
    CHECK(all.gateway.looks == 0);
    CHECK(all.effects("till") == "prepare\nsettle r-1");
    CHECK(all.saga_status("k") == "completed");
}
