// Without a broker: to which databases a message goes, and what one that is away, silent or restored holds up.
#include "transport_inbox_fixture.hpp"

using namespace skald::test;
namespace inbox = skald::inbox;
namespace ports = skald::ports;

namespace {

constexpr auto nowhere = "postgresql://nobody@127.0.0.1:1/nothing";

/// A handler's queue, as its process declares it.
void declare(database const& db, std::string const& key, std::string const& queue)
{
    db.run("INSERT INTO skald.queue (name) VALUES ('" + queue + "'); INSERT INTO skald.binding VALUES ('" + key +
           "', '" + queue + "')");
}

}  // namespace

TEST_CASE("an event whose key begins with a service's name is no message to that service alone")
{
    inbox_fixture f;
    database const of_billing;
    auto options = f.options();
    options.peers = {{"orders", f.db().url()}, {"billing", of_billing.url()}};
    inbox::inbox_transport transport{options, f.log()};
    auto const publisher = transport.open_publisher();
    declare(of_billing, "orders.created", "billing.on.order-created");
    CHECK(all_confirmed(publish(*publisher, batch({message_for("orders.created")}))));
    declare(f.db(), "orders.created", "orders.on.created");
    CHECK(all_confirmed(publish(*publisher, batch({message_for("orders.created")}))));
    CHECK(of_billing.one("SELECT count(*) FROM skald.inbox") == "2");
    CHECK(f.db().one("SELECT count(*) FROM skald.inbox") == "1");

    // What does name a service or its handler goes nowhere else, whoever is bound.
    declare(of_billing, "orders.on.created", "billing.on.others");
    CHECK(all_confirmed(publish(*publisher, batch({message_for("orders.on.created")}))));
    CHECK(of_billing.one("SELECT count(*) FROM skald.inbox") == "2");
    CHECK(f.db().one("SELECT count(*) FROM skald.inbox") == "2");
}

TEST_CASE("what is for whoever is bound is tried again as seldom as what is barred, while one can't be asked")
{
    inbox_fixture f;
    auto options = f.options();
    options.peers = {{"away", nowhere}, {"orders", f.db().url()}};
    inbox::inbox_transport transport{options, f.log()};
    auto const publisher = transport.open_publisher();
    REQUIRE(publisher->available());
    declare(f.db(), "entered", "orders.on.entered");
    auto const receipts = publish(*publisher, batch({message_for("entered"), message_for("unheard-of")}));
    for (auto const& one : receipts) {  // somebody may be bound to either there
        CHECK(one.status == publish_status::barred);
        CHECK(one.reason.find("away: ") == 0);
    }
    CHECK(f.db().one("SELECT count(*) FROM skald.inbox") == "1");

    options.peers = {{"away", nowhere}, {"gone", nowhere + std::string{"_else"}}};
    inbox::inbox_transport to_nobody{options, f.log()};
    CHECK(publish(*to_nobody.open_publisher(), batch({message_for("entered")}))[0].status ==
          publish_status::unresolved);  // nobody has it: no harm in trying soon
}
