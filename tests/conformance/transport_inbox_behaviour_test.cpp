// What an inbox in PostgreSQL promises beyond what every transport keeps: who has a message when a consumer is gone or
// hangs, what a peer that is away holds up, and which rights a sender needs.
#include "transport_inbox_fixture.hpp"

#include "inbox/consumer.hpp"
#include "postgres/literal.hpp"
#include "skald_inbox_queries.hpp"
#include "support/session.hpp"

#include <nlohmann/json.hpp>
#include <skald/errors.hpp>

using namespace skald::test;
namespace inbox = skald::inbox;
namespace ports = skald::ports;
using skald::postgres::execute;

namespace {

// A consumer without the thread around it.
struct bare_consumer
{
    bare_consumer(inbox_fixture& f, ports::subscriber const& who) : with{f.options().database, who, 1, ended} {}
    bare_consumer(inbox_fixture& f, std::string const& service) : bare_consumer{f, ports::subscriber{service, 10}} {}

    std::vector<ports::delivery> take()
    {
        while (with.take(box)) {}
        return box.take(100, std::chrono::milliseconds{0});
    }

    skald::transports::mailbox box;
    std::vector<std::int64_t> ended;
    inbox::consumer with;
};

// A consumer's session, whose statements say what they have read.
class statements
{
public:
    explicit statements(inbox_fixture& f) : session_{f.options().database}
    {
        std::string prepared;
        for (auto const& [name, text] : skald::inbox_queries::all)
            prepared += "PREPARE " + std::string{name} + " AS " + std::string{text} + ";\n";
        session_.run(prepared + execute("consumer_session"));
        skald::inbox_queries::begin_consumer const mine{.is_of = "a test", .queues = std::vector<std::string>{}};
        id_ = session_.run(execute(mine))[0]["id"].as<std::int64_t>();
    }

    std::int64_t id() const { return id_; }

    template <class Statement>
    int blocks_of(Statement const& one)
    {
        std::string const text = session_.run("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + execute(one))[0][0].c_str();
        auto const plan = nlohmann::json::parse(text).at(0).at("Plan");
        return plan.at("Shared Hit Blocks").get<int>() + plan.at("Shared Read Blocks").get<int>();
    }

private:
    skald::postgres::connection session_;
    std::int64_t id_{};
};

void send(inbox_fixture& f, std::vector<ports::outgoing> const& rows)
{
    auto const publisher = f.transport().open_publisher();
    REQUIRE(publisher->available());
    REQUIRE(all_confirmed(publish(*publisher, rows)));
}

std::string url_as(database const& db, std::string const& role)
{
    auto const at = db.url().find("://") + 3;
    auto const end = db.url().find('@', at);
    return db.url().substr(0, at) + role + db.url().substr(end == std::string::npos ? at - 1 : end);
}

}  // namespace

TEST_CASE("a consumer that has found nothing more asks again only when it is told to, or it is time to look")
{
    inbox_fixture fixture;
    auto const service = fixture.service();
    bare_consumer one{fixture, service};
    CHECK(one.take().empty());
    // Without a notice.
    fixture.db().run("INSERT INTO skald.inbox (queue, message_id, type, content_type, headers, body) VALUES ('" +
                     service + "', 'm', 't', '', '[]', '')");
    CHECK(one.take().empty());
    one.with.look_again();
    CHECK(one.take().size() == 1);
}

TEST_CASE("what would act if it were sent again is dropped from what SQL wrote into an inbox")
{
    inbox_fixture f;
    auto const service = f.service();
    bare_consumer one{f, service};
    f.db().run("INSERT INTO skald.inbox (queue, message_id, type, content_type, headers, body) VALUES ('" + service +
               R"(', 'm', 't', '', '[["CC", "x"], ["skald-exchange", "x"], ["left", "y"]]', ''))");
    one.with.look_again();
    auto const taken = one.take();
    REQUIRE(taken.size() == 1);
    CHECK(taken[0].problem == "");
    CHECK(taken[0].message.headers == skald::core::header_list{{"left", "y"}});
}

TEST_CASE("what a consumer had that is gone comes again at once, to another")
{
    inbox_fixture f;
    auto const service = f.service();
    bare_consumer other{f, service};
    {
        bare_consumer gone{f, service};
        send(f, numbered(service, 3));
        REQUIRE(gone.take().size() == 3);
        CHECK(other.take().empty());
    }
    f.db().run("UPDATE skald.consumer SET seen_at = clock_timestamp()");  // so that only its session tells
    std::vector<ports::delivery> again;
    CHECK(wait_until([&] {
        other.with.keep();
        for (auto& one : other.take()) again.push_back(std::move(one));
        return again.size() == 3;
    }));
    for (auto const& one : again) CHECK(one.returns == 1);
    CHECK(f.db().one("SELECT count(*) FROM skald.consumer") == "1");
}

TEST_CASE("a consumer that hangs loses what it had, and neither takes nor deletes anything when it comes back")
{
    inbox_fixture f;
    auto const service = f.service();
    bare_consumer hanging{f, service}, other{f, service};
    send(f, numbered(service, 3));
    auto const had = hanging.take();
    REQUIRE(had.size() == 3);
    f.db().run("UPDATE skald.consumer SET seen_at = clock_timestamp() - interval '31 s'"
               " WHERE id = (SELECT min(consumer) FROM skald.inbox)");
    other.with.keep();
    auto const again = other.take();
    REQUIRE(again.size() == 3);
    CHECK(again[0].returns == 1);

    skald::transports::requests late;
    for (auto const& one : had) late.acks.push_back(one.tag);
    hanging.with.settle(late);
    CHECK(f.db().one("SELECT count(*) FROM skald.inbox") == "3");
    send(f, numbered(service, 1, "new"));
    CHECK(hanging.take().empty());
    CHECK_THROWS_AS(hanging.with.keep(), pqxx::broken_connection);
    CHECK(wait_until([&] { return other.take().size() == 1; }));  // once the notice is here
}

TEST_CASE("where one peer is away, what is for the others goes on")
{
    inbox_fixture f;
    auto const service = f.service();
    auto const listening = f.transport().subscribe({service, 10});
    auto options = f.options();
    options.peers.push_back({"away", "postgresql://nobody@127.0.0.1:1/nothing"});
    inbox::inbox_transport transport{options, f.log()};
    auto const publisher = transport.open_publisher();
    REQUIRE(publisher->available());
    auto const receipts =
        publish(*publisher, batch({message_for(service, "a"), message_for("away", "b"), message_for(service, "c")}));
    CHECK(receipts[0].status == publish_status::confirmed);
    CHECK(receipts[1].status == publish_status::nacked);  // put off by itself; `unresolved` would hold up all
    CHECK(receipts[1].reason.find("away: ") == 0);
    CHECK(receipts[2].status == publish_status::confirmed);
}

TEST_CASE("a destination that no line names is returned, and says which file")
{
    inbox_fixture f;
    auto const receipt = publish(*f.transport().open_publisher(), batch({message_for("unknown")}))[0];
    CHECK(receipt.status == publish_status::returned);
    CHECK(receipt.reason.find("SKALD_PEERS_FILE has no `unknown`") != std::string::npos);
}

TEST_CASE("a sender needs no right but to insert a message, and to read whose inbox it is")
{
    inbox_fixture f;
    auto const service = f.service();
    auto const listening = f.transport().subscribe({service, 10});
    f.db().run("DO $$ BEGIN CREATE ROLE skald_test_sender LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
    auto options = f.options();
    options.peers = {{service, url_as(f.db(), "skald_test_sender")}};
    auto const send_one = [&] {
        inbox::inbox_transport transport{options, f.log()};
        return publish(*transport.open_publisher(), batch({message_for(service)}))[0];
    };
    auto const is_told = [&](std::string const& right, publish_status status) {
        auto const refused = send_one();
        CHECK(refused.status == status);
        CHECK_MESSAGE(refused.reason.find(service + ": this role lacks the right " + right + " there (") == 0,
                      refused.reason);
        CHECK_MESSAGE(refused.reason.find('\n') == std::string::npos, refused.reason);
    };
    is_told("USAGE on the schema skald", publish_status::unresolved);
    f.db().run("GRANT USAGE ON SCHEMA skald TO skald_test_sender");
    is_told("SELECT on skald.service", publish_status::unresolved);
    f.db().run("GRANT SELECT ON skald.service, skald.queue, skald.binding TO skald_test_sender");
    is_told("INSERT on skald.inbox", publish_status::nacked);
    f.db().run(
        "GRANT INSERT (queue, message_id, type, content_type, headers, body) ON skald.inbox TO skald_test_sender");
    auto const sent = send_one();
    CHECK(sent.reason == "");
    CHECK(sent.status == publish_status::confirmed);
    CHECK(collect(*listening, 1).size() == 1);
    CHECK(f.db().one("SELECT has_table_privilege('skald_test_sender', 'skald.inbox', 'SELECT, UPDATE, DELETE')") ==
          "f");
    f.db().run("REVOKE ALL ON SCHEMA skald FROM skald_test_sender;"
               "REVOKE ALL ON ALL TABLES IN SCHEMA skald FROM skald_test_sender");
}

TEST_CASE("a sender neither waits for a lock on another of its receiver's tables nor takes one")
{
    inbox_fixture f;
    auto const service = f.service();
    auto const listening = f.transport().subscribe({service, 10});
    skald::test::session other{f.db()};
    other.run("BEGIN; LOCK TABLE skald.idempotency, skald.response, skald.reply, skald.saga, skald.outbox, "
              "skald.progress, skald.control, skald.parked, skald.unrouted, skald.started");
    CHECK(publish(*f.transport().open_publisher(), batch({message_for(service)}))[0].status ==
          publish_status::confirmed);
    other.run("ROLLBACK");
    CHECK(collect(*listening, 1).size() == 1);
}

TEST_CASE("a row that a trigger swallows is no confirm")
{
    inbox_fixture f;
    auto const service = f.service();
    auto const listening = f.transport().subscribe({service, 10});
    f.db().run("CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
               "CREATE TRIGGER swallow BEFORE INSERT ON skald.inbox FOR EACH ROW EXECUTE FUNCTION swallow()");
    auto const receipt = publish(*f.transport().open_publisher(), batch({message_for(service)}))[0];
    f.db().run("DROP TRIGGER swallow ON skald.inbox");
    CHECK(receipt.status == publish_status::nacked);
    CHECK(receipt.reason.find("skald.inbox took 0 of 1 rows") != std::string::npos);
}

TEST_CASE("each message handler has a queue and a prefetch of its own")
{
    inbox_fixture f;
    auto const service = f.service();
    ports::subscriber who{service, 2};
    who.handlers.push_back({"quote", 1});
    auto const listening = f.transport().subscribe(who);
    send(f, numbered(service + ".on.quote", 3));
    auto const first = collect(*listening, 1);
    REQUIRE(first.size() == 1);
    CHECK(first[0].handler == "quote");
    CHECK(first[0].message.destination == service + ".on.quote");
    CHECK(nothing_comes(*listening));
    send(f, numbered(service, 2));
    CHECK(collect(*listening, 2).size() == 2);
    ack_all(*listening, first);
    CHECK(collect(*listening, 1).size() == 1);
}

TEST_CASE("a handler that is bound to an exchange of others is refused, and told what to do")
{
    inbox_fixture f;
    ports::subscriber who{f.service(), 2};
    who.handlers.push_back({"entered", 1, {{.routing_key = "entered", .exchange = "shop"}}});
    try {
        f.transport().subscribe(who);
        FAIL("it was accepted");
    }
    catch (skald::configuration_error const& error) {
        CHECK(std::string{error.what()}.find("send to `entered` or `service-1.on.entered`") != std::string::npos);
    }
}

TEST_CASE("R11: a search for messages does not walk over what was taken while a snapshot is held")
{
    inbox_fixture f;
    auto const service = f.service();
    bare_consumer c{f, service};
    pqxx::connection elsewhere{f.db().url()};
    pqxx::work holds{elsewhere};
    holds.exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    holds.exec("SELECT 1 FROM skald.inbox");

    // Dead rows: as many as some seconds of traffic leave.
    f.db().run("INSERT INTO skald.inbox (queue, message_id, type, content_type, headers, body)"
               " SELECT '" +
               service + "', 'x', 'x', 'x', '[]', '' FROM generate_series(1, 20000)");
    f.db().run("DELETE FROM skald.inbox");
    CHECK(wait_until([&] {
        c.with.keep();
        return c.with.first_id() > 20'000;
    }));
    send(f, numbered(service, 1));
    CHECK(c.take().size() == 1);
}

TEST_CASE("R11: while a snapshot is held, taking and deleting read a few blocks for each message, whatever the planner "
          "believes")
{
    inbox_fixture f;
    auto const service = f.service();
    pqxx::connection elsewhere{f.db().url()};
    pqxx::work holds{elsewhere};
    holds.exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    holds.exec("SELECT 1 FROM skald.inbox");
    bare_consumer c{f, service};  // which knows the service's queue
    f.db().run("INSERT INTO skald.inbox (queue, message_id, type, content_type, headers, body)"
               " SELECT '" +
               service + "', 'x', 'x', 'x', '[]', repeat('x', 500)::bytea FROM generate_series(1, 20000)");
    auto const first = std::stoll(f.db().one("SELECT max(id) + 1 FROM skald.inbox"));
    f.db().run("DELETE FROM skald.inbox");
    f.db().run("ANALYZE skald.inbox");  // as autovacuum does: the table counts as empty

    statements session{f};
    std::vector<std::string> const queues{service};
    std::vector<std::int64_t> const rooms{32}, first_ids{first};
    std::vector<std::string> const each_queue(32, service);
    for (int round = 0; round < 12; ++round) {  // the sixth may get a plan for all
        send(f, numbered(service, 32));
        auto const took = session.blocks_of(
            skald::inbox_queries::take{.me = session.id(), .queues = queues, .rooms = rooms, .first_ids = first_ids});
        std::vector<std::int64_t> ids;
        for (auto const& row :
             f.db().run("SELECT id FROM skald.inbox WHERE consumer = " + std::to_string(session.id())))
            ids.push_back(row[0].as<std::int64_t>());
        REQUIRE(ids.size() == 32);
        auto const deleted =
            session.blocks_of(skald::inbox_queries::delete_acked{.queues = each_queue, .ids = ids, .me = session.id()});
        CHECK_MESSAGE(took < 32 * 40, took);
        CHECK_MESSAGE(deleted < 32 * 40, deleted);
    }
}

TEST_CASE("a message that comes while the consumer asks for others is told of, and not found by the next look")
{
    inbox_fixture f;
    auto const service = f.service();
    auto const listening = f.transport().subscribe({service, 10});
    auto const publisher = f.transport().open_publisher();
    for (int i = 0; i < 300; ++i) {
        REQUIRE(all_confirmed(publish(*publisher, batch({message_for(service)}))));
        auto const came = collect(*listening, 1);
        REQUIRE(came.size() == 1);
        ack_all(*listening, came);  // which wakes the consumer, just as the next one comes
    }
}

TEST_CASE("a consumer that has no room does not go on asking for what it was told of")
{
    inbox_fixture f;
    auto const service = f.service();
    bare_consumer c{f, service};
    send(f, numbered(service, 11));  // it has room for ten
    CHECK(c.take().size() == 10);
    send(f, numbered(service, 1, "more"));
    REQUIRE(wait_until([&] { return c.with.has_heard(); }));
    CHECK_FALSE(c.with.take(c.box));
    CHECK_FALSE(c.with.has_heard());
}

TEST_CASE("queues that somebody deletes are declared again while their consumer lives")
{
    inbox_fixture f;
    auto const service = f.service();
    ports::subscriber who{service, 10};
    who.handlers.push_back({"audit", 10, {{.routing_key = "entered"}}});
    bare_consumer c{f, who};
    f.db().run("DELETE FROM skald.queue; DELETE FROM skald.binding");
    c.with.keep();
    CHECK(f.db().one("SELECT (SELECT count(*) FROM skald.queue) || ' ' || (SELECT count(*) FROM skald.binding)") ==
          "2 1");
    send(f, numbered(service, 1));
    CHECK(c.take().size() == 1);
}

TEST_CASE("a row whose returns can't be counted on holds up nobody")
{
    inbox_fixture f;
    auto const service = f.service();
    bare_consumer c{f, service};
    f.db().run("INSERT INTO skald.inbox (queue, consumer, returns, message_id, type, content_type, headers, body)"
               " VALUES ('" +
               service + "', 77, 2147483647, 'x', 'x', 'x', '[]', '')");
    bare_consumer next{f, service};  // frees what the unknown consumer 77 had
    auto const came = next.take();
    REQUIRE(came.size() == 1);
    CHECK(came[0].given_up);
}
