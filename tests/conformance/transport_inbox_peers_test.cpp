// Without a broker: to which databases a message goes, and what one that is away, silent or restored holds up.
#include "transport_inbox_fixture.hpp"

#include <netinet/in.h>

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

/// What `skald migrate --adopt` does.
void adopt(database const& db)
{
    db.run("UPDATE skald.service SET place = skald.place()");
}

/// While this lives the database is somewhere else, as after a restore or a move.
class moved
{
public:
    explicit moved(database const& db)
        : db_{db}, as_it_was_{db.one("SELECT pg_get_functiondef('skald.place()'::regprocedure)")}
    {
        db_.run("CREATE OR REPLACE FUNCTION skald.place() RETURNS text LANGUAGE sql STABLE AS $$SELECT '7/7/7'$$");
    }
    ~moved()
    {
        db_.run(as_it_was_);
        adopt(db_);
    }
    moved(moved const&) = delete;
    moved& operator=(moved const&) = delete;

private:
    database const& db_;
    std::string as_it_was_;
};

/// A host that refuses connections at first, and later takes them and says nothing.
class silent_host
{
public:
    silent_host()
    {
        sockaddr_in any{};
        any.sin_family = AF_INET;
        any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof any;
        auto* const address = reinterpret_cast<sockaddr*>(&any);
        REQUIRE(::bind(listener_, address, size) == 0);
        REQUIRE(::getsockname(listener_, address, &size) == 0);
        url_ = "postgresql://nobody@127.0.0.1:" + std::to_string(ntohs(any.sin_port)) + "/nothing?connect_timeout=20";
    }
    ~silent_host() { hang_up(); }
    silent_host(silent_host const&) = delete;
    silent_host& operator=(silent_host const&) = delete;

    std::string const& url() const { return url_; }
    void take_calls() const { REQUIRE(::listen(listener_, 8) == 0); }

    bool has_caller()
    {
        if (caller_ < 0) caller_ = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        return caller_ >= 0;
    }
    bool caller_waits() const
    {
        std::array<char, 4096> said{};
        ssize_t got = 0;
        while ((got = ::recv(caller_, said.data(), said.size(), 0)) > 0) {}
        return got < 0 && errno == EAGAIN;
    }
    void hang_up()
    {
        for (auto* const one : {&listener_, &caller_})
            if (*one >= 0) ::close(std::exchange(*one, -1));
    }

private:
    int listener_{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    int caller_{-1};
    std::string url_;
};

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

TEST_CASE("to a database that was restored or moved nothing is sent until it is adopted, and then without a restart")
{
    inbox_fixture f;
    auto const service = f.service();
    auto const publisher = f.transport().open_publisher();
    declare(f.db(), "entered", service);
    CHECK(all_confirmed(publish(*publisher, batch({message_for(service, "before")}))));
    moved const elsewhere{f.db()};
    f.go_down();
    CHECK(wait_until([&] { return !publisher->available(); }));
    f.come_back();
    CHECK(wait_until([&] {
        return !publisher->available() && publisher->last_error().find("--service orders --adopt") != std::string::npos;
    }));
    CHECK(publish(*f.transport().open_publisher(), batch({message_for(service)}))[0].status !=
          publish_status::confirmed);  // nor by who has just been started
    adopt(f.db());
    CHECK(wait_until([&] { return publisher->available(); }));
    CHECK(all_confirmed(publish(*publisher, batch({message_for(service, "after")}))));
    CHECK(f.db().rows("SELECT message_id FROM skald.inbox ORDER BY id") == "before\nafter");
}

TEST_CASE("nothing is sent to another database than before under the same address")
{
    inbox_fixture f;
    auto const service = f.service();
    auto const publisher = f.transport().open_publisher();
    declare(f.db(), "entered", service);
    CHECK(all_confirmed(publish(*publisher, batch({message_for(service)}))));
    f.db().run("UPDATE skald.service SET id = gen_random_uuid()");
    f.go_down();
    CHECK(wait_until([&] { return !publisher->available(); }));
    f.come_back();
    CHECK(wait_until([&] {
        publisher->available();
        return publisher->last_error().find("another database than the one that this process has sent to") !=
               std::string::npos;
    }));
    CHECK(publisher->available());  // its rows are tried, so that they say why not
    auto const refused = publish(*publisher, batch({message_for(service)}));
    CHECK(refused[0].status == publish_status::nacked);
    CHECK_MESSAGE(refused[0].reason.find(": it is another database than") != std::string::npos, refused[0].reason);
    CHECK(f.db().one("SELECT count(*) FROM skald.inbox") == "1");
    CHECK(all_confirmed(publish(*f.transport().open_publisher(), batch({message_for(service)}))));
}

TEST_CASE("a host that says nothing holds up nobody, once an attempt to connect to it has failed")
{
    inbox_fixture f;
    auto const service = f.service();
    declare(f.db(), "entered", service);
    silent_host silent;
    auto options = f.options();
    options.peers.push_back({"silent", silent.url()});
    inbox::inbox_transport transport{options, f.log()};
    auto const publisher = transport.open_publisher();
    REQUIRE(publisher->available());
    silent.take_calls();
    REQUIRE(wait_until([&] { return publisher->available() && silent.has_caller(); }));
    auto const receipts = publish(*publisher, batch({message_for(service), message_for("silent")}));
    CHECK(receipts[0].status == publish_status::confirmed);
    CHECK(receipts[1].status == publish_status::nacked);
    CHECK(silent.caller_waits());  // so this attempt was not waited for
    silent.hang_up();              // or the publisher's end waits for it
}
