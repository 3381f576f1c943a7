// A service whose large bodies are behind S3's API, with its broker and its database.
#include "s3_server.hpp"
#include "support/running_service.hpp"

#include <doctest/doctest.h>

#include <skald/s3.hpp>

#include <atomic>

using namespace skald;
using namespace skald::test;

namespace {

constexpr std::size_t large = 3'000'000;

/// Sends a large message to itself.
struct vault
{
    vault()
    {
        amqp_hands hands{amqp_place{required("AMQP_URL")}};
        for (auto const* name : {"begin", "end"}) hands.delete_queue(std::string{"skald.vault.on."} + name);
        service.on<std::string>("begin",
                                [](message_context& ctx, std::string const&) {
                                    ctx.publish("vault.on.end", "grown", std::string(large, 'v'));
                                },
                                {});
        service.on<std::string>("end", [this](message_context&, std::string const& v) { seen += v.size(); }, {});
    }
    void send(std::string const& id)
    {
        raw_message m;
        m.set_id(id);
        m.body = "\"now\"";
        amqp_hands{amqp_place{required("AMQP_URL")}}.publish("skald", "vault.on.begin", m);
    }
    void use(s3_server const& server)
    {
        service.keep_bodies(s3());
        service.start([&](config& c) {
            c.body_store = server.store();
            c.s3_key = c.s3_secret = s3_server::key;
        });
    }

    std::atomic<std::size_t> seen{};
    running_service service{"vault"};
};

}  // namespace

TEST_CASE("a service keeps its large bodies behind S3's API, and waits for a server that is away")
{
    s3_server server;
    vault v;
    v.use(server);
    v.send("m-1");
    REQUIRE(skald::testing::wait_until([&] { return v.seen == large; }));
    CHECK(server.files("").size() == 2);  // the body, and the service's mark
    CHECK(v.service.db.one("SELECT count(*) FROM skald.body") == "0");

    server.kill();
    v.send("m-2");
    // Whatever needs the store is rolled back, and tried again.
    CHECK(v.service.db.one("SELECT count(*) FROM skald.parked") == "0");
    server.start();
    REQUIRE(skald::testing::wait_until([&] { return v.seen == 2 * large; }));
    CHECK(v.service.db.one("SELECT count(*) FROM skald.parked") == "0");
    CHECK(v.service.db.one("SELECT count(*) FROM skald.idempotency WHERE status = 'completed'") == "4");
}

TEST_CASE("a service without what speaks S3 does not start with it, and says what to link")
{
    config c;
    c.body_store = "s3:http://127.0.0.1:1/b";
    service none{"vault"};
    none.on<std::string>("begin", [](message_context&, std::string const&) {}, {});
    CHECK_THROWS_WITH_AS(worker(std::move(none), c),
                         "SKALD_BODY_STORE=s3:http://127.0.0.1:1/b: the service vault has nothing that speaks S3: link "
                         "skald::s3 and call service.bodies(skald::s3())",
                         configuration_error);
}
