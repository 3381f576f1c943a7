// Exchanges that take nothing: when the next message may be sent there.
#include <doctest/doctest.h>

#include "rabbitmq/barred_exchanges.hpp"

namespace {

using namespace std::chrono_literals;
using skald::rabbitmq::barred_exchanges;
constexpr barred_exchanges::time_point now{1h};

}  // namespace

TEST_CASE("nothing is sent to a barred exchange for a while, and longer each time, up to a limit")
{
    barred_exchanges all{{5s, 1min}};
    CHECK(all.why_not("", now) == "");
    auto at = now;
    for (auto const wait : {5s, 10s, 20s, 40s, 60s, 60s}) {
        all.bar("", "refused", at);
        CHECK(all.why_not("", at) == "refused");
        CHECK(all.why_not("", at + wait - 1ms) == "refused");
        CHECK(all.why_not("", at + wait) == "");
        CHECK(all.is_doubtful(""));
        at += wait;
    }
    CHECK(all.why_not("other", now) == "");
    CHECK_FALSE(all.is_doubtful("other"));
    all.open("");
    CHECK_FALSE(all.is_doubtful(""));
    all.bar("", "again", at);
    CHECK(all.why_not("", at + 5s) == "");
}

TEST_CASE("invented exchanges don't fill the memory")
{
    barred_exchanges all{{5s, 1min}};
    for (int n = 0; n < 5'000; ++n) all.bar("e" + std::to_string(n), "none", now);
    CHECK_FALSE(all.is_doubtful("e0"));
    CHECK(all.is_doubtful("e4999"));
}
