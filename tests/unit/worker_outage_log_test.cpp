// An outage of the broker is one line, however many connections notice it.
#include "support/recording_logger.hpp"

#include "worker/outage_log.hpp"

#include <doctest/doctest.h>

using skald::test::recording_logger;

TEST_CASE("the first role says that the broker is lost, and the others only to who looks for details")
{
    recording_logger said;
    auto const count = [&](std::string const& words) {
        std::size_t n = 0;
        auto const lines = said.lines();
        for (auto at = lines.find(words); at != std::string::npos; at = lines.find(words, at + 1)) ++n;
        return n;
    };
    skald::worker_detail::outage_log log{said};
    auto const lose = [&](char const* role, char const* reason) {
        log.warning("broker.lost", {{"role", role}, {"reason", reason}});
    };
    lose("consumer", "no connection");
    lose("publisher", "no connection");
    lose("publisher", "no connection");
    CHECK(count("warning test broker.lost") == 1);
    CHECK(count("debug test broker.lost") == 2);
    lose("consumer", "access refused");  // something else
    CHECK(count("warning test broker.lost") == 2);
    lose("publisher", "no connection");  // the nodes of a cluster in turn
    lose("consumer", "access refused");
    CHECK(count("warning test broker.lost") == 2);
    log.info("broker.connected", {{"role", "consumer"}});
    lose("consumer", "access refused");  // a new outage
    CHECK(count("warning test broker.lost") == 3);
    log.warning("relay.waiting", {{"reason", "access refused"}});
    CHECK(count("warning test relay.waiting") == 1);
}
