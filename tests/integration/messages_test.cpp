// Handlers of messages that belong to no saga: once each, whatever comes twice, fails, or can't be read.
#include "support/fresh_database.hpp"
#include "support/running_service.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>

using namespace skald::test;
using namespace std::chrono_literals;
using skald::message_key;

namespace {

struct payment
{
    std::string id;
    std::int64_t cents{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(payment, id, cents)

struct enter_payment final : skald::retriable_step<payment>
{
    skald::forward_outcome execute(skald::step_context& ctx, payment& p) const override
    {
        ctx.sql("INSERT INTO entry VALUES ('by saga ' || $1, $2)", p.id, p.cents);
        return skald::done();
    }
};
constexpr skald::retriable<payment> enter_step{"enter-payment", "books"};
constexpr auto enter_saga = skald::define("enter", enter_step);

constexpr auto entries = "SELECT string_agg(id || '=' || cents, ' ' ORDER BY id) FROM entry";
constexpr auto parked = "SELECT handler, step, key, reason FROM skald.parked ORDER BY id";

raw_message paid(std::string const& id, int cents)
{
    raw_message m;
    m.set_id("m-" + id);
    m.body = R"({"id":")" + id + R"(","cents":)" + std::to_string(cents) + '}';
    return m;
}

/// A service that hears of payments over an exchange of somebody else's.
struct books
{
    books()
    {
        service.db.run("DROP TABLE IF EXISTS entry; CREATE TABLE entry (id text, cents bigint)");
        service.host(enter_saga, enter_step, enter_payment{});
        service.on<payment>("payment-created",
                            [this](skald::message_context& ctx, payment const& p) {
                                ++runs;
                                ctx.sql("INSERT INTO entry VALUES ($1, $2)", p.id, p.cents);
                                if (failures > 0 && failures-- > 0) throw std::runtime_error{"not now"};
                            },
                            {.bind = {{"payment.created", exchange, "topic"}}, .key = message_key::members({"/id"})});
        service.on<payment>("quote",
                            [](skald::message_context& ctx, payment const& p) {
                                // A text in JSON has two quotes around it.
                                if (p.id == "as large as may be") ctx.reply(std::string(1024 * 1024 - 2, 'x'));
                                else if (p.id == "too large") ctx.reply(std::string(1024 * 1024 - 1, 'x'));
                                else ctx.reply({{"cents", p.cents * 2}});
                            },
                            {});
        service.on<payment>("begin",
                            [](skald::message_context& ctx, payment const& p) {
                                skald::start(ctx.tx(), enter_saga, p, {.key = "of-" + ctx.message_key()});
                                ctx.publish("nobody", "begun", {{"id", p.id}});
                            },
                            {});
        service.on<payment>(
            "by-what-it-has",
            [this](skald::message_context& ctx, payment const& p) {
                ctx.sql("INSERT INTO entry VALUES ($1, $2)", p.id, p.cents);
                if (failures > 0 && failures-- > 0) throw std::runtime_error{"not now"};
            },
            // What an outbox may not keep as it came: an empty id, a name that comes twice, bytes that are no text.
            {.key = message_key::computed([](skald::received_message const& m) {
                 std::string all = m.id + '|' + m.type;
                 for (auto const& [name, value] : m.headers)
                     if (name.starts_with("of-")) all += '|' + name + '=' + value;
                 return all;
             })});
        service.on<payment>("refuse",
                            [](skald::message_context& ctx, payment const& p) -> skald::outcome {
                                ctx.sql("INSERT INTO entry VALUES ($1, 0)", p.id);
                                return skald::reject("no such customer");
                            },
                            {.scope = message_key::header("tenant")});
        service.start();
    }
    ~books() { broker.delete_exchange(exchange); }

    void tell(raw_message const& m) { broker.publish(exchange, "payment.created", m); }
    void send(std::string const& handler, raw_message const& m) { broker.publish("skald", "books.on." + handler, m); }
    bool comes_to(std::string const& sql, std::string const& answer) const
    {
        return skald::testing::wait_until([&] { return service.db.rows(sql) == answer; }, 30s);
    }

    std::string const exchange{"shop-" + random_word()};
    std::atomic<int> runs{}, failures{};
    amqp_hands broker{amqp_place{required("AMQP_URL")}};
    running_service service{"books"};
};

}  // namespace

TEST_CASE("a message takes effect once, however often it comes")
{
    books b;
    for (int copy = 0; copy < 8; ++copy)
        for (auto const* id : {"a", "b", "c"}) b.tell(paid(id, 5));
    CHECK(b.comes_to(entries, "a=5 b=5 c=5"));
    // Whatever came before this one has been handled when this one has.
    b.tell(paid("d", 6));
    CHECK(b.comes_to(entries, "a=5 b=5 c=5 d=6"));
    CHECK(b.runs == 4);
    CHECK(b.service.db.rows("SELECT DISTINCT step, status, home, attempts FROM skald.idempotency") ==
          "payment-created|completed|-|1");
    CHECK(b.service.db.one("SELECT count(*) FROM skald.saga") == "0");
    CHECK(b.comes_to("SELECT count(*) FROM skald.outbox", "0"));
}

TEST_CASE("the key with another body is parked, and the first one counts")
{
    books b;
    b.tell(paid("a", 5));
    CHECK(b.comes_to(entries, "a=5"));
    b.tell(paid("a", 6));
    CHECK(b.comes_to(parked, "payment-created|payment-created|a|mismatch"));
    CHECK(b.service.db.one(entries) == "a=5");
    CHECK(b.service.db.one("SELECT skald.replay_parked(id) FROM skald.parked").find("that one counts") !=
          std::string::npos);
    CHECK(b.service.db.one("SELECT skald.drop_parked(id, 'seen') IS NULL FROM skald.parked") == "t");
    CHECK(b.service.db.one("SELECT status FROM skald.idempotency") == "completed");
}

TEST_CASE("a message without a key, or one that is no JSON, is parked and never run")
{
    books b;
    auto nameless = paid("a", 5);
    nameless.body = R"({"cents":5})";
    b.tell(nameless);
    CHECK(b.comes_to(parked, "payment-created|||no_key"));
    CHECK(b.service.db.one("SELECT error FROM skald.parked") == "it has no member /id");
    CHECK(b.service.db.one("SELECT message_id FROM skald.parked") == "m-a");

    // Replayed, it comes again as it was: after a deployment the key may be found elsewhere.
    CHECK(b.service.db.one("SELECT skald.replay_parked(id) IS NULL FROM skald.parked") == "t");
    CHECK(b.comes_to(parked, "payment-created|||no_key"));

    nameless.body = R"({"id":"a"})";
    b.tell(nameless);
    CHECK(b.comes_to("SELECT step, key, reason FROM skald.parked WHERE step <> ''", "payment-created|a|malformed"));
    CHECK(b.service.db.one("SELECT error FROM skald.parked WHERE step <> ''")
              .starts_with("the payload does not fit the handler's type: "));
    CHECK(b.runs == 0);
    // The right one may still come.
    b.tell(paid("a", 7));
    CHECK(b.comes_to(entries, "a=7"));
}

TEST_CASE("a message without an id stays without one when it is put back")
{
    books b;
    raw_message nameless;
    nameless.body = R"({"id":"a","cents":5})";
    b.send("begin", nameless);
    CHECK(b.comes_to(parked, "begin|||no_key"));
    CHECK(b.service.db.one("SELECT skald.replay_parked(id) IS NULL FROM skald.parked") == "t");
    CHECK(b.comes_to("SELECT handler, id > 1, reason, message_id FROM skald.parked", "begin|t|no_key|"));
    CHECK(b.service.db.one("SELECT count(*) FROM skald.idempotency") == "0");
}

TEST_CASE("two handlers that can't run the same message park it both")
{
    books b;
    raw_message unfit;
    unfit.set_id("m");
    unfit.body = "[]";
    b.send("begin", unfit);
    CHECK(b.comes_to("SELECT handler, reason FROM skald.parked", "begin|malformed"));
    b.send("quote", unfit);
    CHECK(b.comes_to("SELECT handler, reason FROM skald.parked ORDER BY id", "begin|malformed\nquote|malformed"));
}

TEST_CASE("a handler that throws is tried again with all that the message had, and parked after its last attempt")
{
    books b;
    b.failures = 2;
    b.tell(paid("a", 5));
    CHECK(b.comes_to(entries, "a=5"));
    CHECK(b.service.db.rows("SELECT status, attempts FROM skald.idempotency") == "completed|3");

    b.failures = 3;
    auto other = paid("b", 5);
    other.set("color", "red");
    b.tell(other);
    CHECK(b.comes_to("SELECT handler, key, reason, headers->>'color' FROM skald.parked",
                     "payment-created|b|attempts_exhausted|red"));
    CHECK(b.service.db.one(entries) == "a=5");
    CHECK(b.service.db.one("SELECT skald.replay_parked(id) IS NULL FROM skald.parked") == "t");
    CHECK(b.comes_to(entries, "a=5 b=5"));
    CHECK(b.comes_to("SELECT count(*) FROM skald.parked", "0"));

    b.failures = 3;
    b.tell(paid("c", 5));
    CHECK(b.comes_to("SELECT key FROM skald.parked", "c"));
    CHECK(b.service.db.one("SELECT skald.drop_parked(id, 'not needed') IS NULL FROM skald.parked") == "t");
    CHECK(b.service.db.one("SELECT status FROM skald.idempotency WHERE key = 'c'") == "cancelled");
}

TEST_CASE("what is tried again keeps the key of its first try, whatever the outbox makes of the message")
{
    books b;
    raw_message m;
    m.body = R"({"id":"a","cents":5})";
    m.add("of-z", text_field("1"));
    m.add("of-a", text_field("one"));
    m.add("of-a", text_field("two"));
    m.add("of-b", text_field("\xff"));
    b.failures = 1;
    b.send("by-what-it-has", m);
    CHECK(b.comes_to(entries, "a=5"));
    for (int copy = 0; copy < 3; ++copy) b.send("by-what-it-has", m);
    b.send("quote", paid("last", 1));
    CHECK(b.comes_to("SELECT key FROM skald.reply", "m-last"));
    CHECK(b.comes_to("SELECT count(*) FROM skald.outbox", "0"));
    CHECK(b.service.db.one("SELECT count(*) FROM entry") == "1");
    CHECK(b.service.db.rows("SELECT status, attempts FROM skald.idempotency WHERE step = 'by-what-it-has'") ==
          "completed|2");

    // The same for one that an operator puts back.
    b.failures = 3;
    m.body = R"({"id":"b","cents":5})";
    m.add("of-c", text_field("other"));
    b.send("by-what-it-has", m);
    CHECK(b.comes_to("SELECT reason FROM skald.parked", "attempts_exhausted"));
    CHECK(b.service.db.one("SELECT skald.replay_parked(id) IS NULL FROM skald.parked") == "t");
    CHECK(b.comes_to(entries, "a=5 b=5"));
    b.send("by-what-it-has", m);
    CHECK(b.comes_to("SELECT count(*) FROM skald.idempotency WHERE status <> 'completed'", "0"));
    CHECK(b.service.db.one("SELECT count(*) FROM entry") == "2");
}

TEST_CASE("a message with more headers than could be sent again is parked, and never run")
{
    books b;
    auto m = paid("a", 5);
    for (auto const* name : {"x", "y", "z"}) m.set(name, std::string(42'970, 'x'));
    b.failures = 1;
    b.tell(m);
    CHECK(b.comes_to(parked, "payment-created|||malformed"));
    CHECK(b.service.db.one("SELECT error FROM skald.parked").find("could never be tried again: its headers need") !=
          std::string::npos);
    CHECK(b.runs == 0);
    auto const refused = b.service.db.one("SELECT skald.replay_parked(id) FROM skald.parked");
    CHECK_MESSAGE(refused.find("it can't be sent again: its headers have over 125 KiB") != std::string::npos, refused);
}

TEST_CASE("a message with as many headers as may be is tried again, and parked with what its handler threw")
{
    books b;
    auto m = paid("a", 5);
    m.set("x", std::string(90'000, 'x'));
    m.set("y", std::string(37'000, '"'));  // two bytes each in JSON
    b.failures = 3;
    b.tell(m);
    CHECK(b.comes_to("SELECT reason, error LIKE '%not now%', length(headers->>'x') FROM skald.parked",
                     "attempts_exhausted|t|90000"));
    CHECK(b.service.db.one("SELECT skald.replay_parked(id) IS NULL FROM skald.parked") == "t");
    CHECK(b.comes_to(entries, "a=5"));
}

TEST_CASE("a rejection is recorded, its writes are gone, and nothing follows")
{
    books b;
    auto m = paid("a", 5);
    m.set("tenant", "acme");
    b.send("refuse", m);
    CHECK(b.comes_to("SELECT scope, key, status, error FROM skald.idempotency", "acme|m-a|rejected|no such customer"));
    CHECK(b.service.db.one("SELECT count(*) FROM entry") == "0");
    CHECK(b.service.db.one("SELECT count(*) FROM skald.parked") == "0");
    CHECK(b.comes_to("SELECT count(*) FROM skald.outbox", "0"));
}

TEST_CASE("a duplicate of a request gets the same reply, byte for byte")
{
    books b;
    std::string const answers = "answers-" + random_word();
    b.broker.declare_queue(answers);
    auto const ask = [&](std::string const& correlation) {
        auto m = paid("a", 5);
        m.properties.reply_to = keep(answers);
        m.properties.correlation_id = keep(correlation);
        m.properties._flags |= AMQP_BASIC_REPLY_TO_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG;
        b.send("quote", m);
        std::optional<raw_message> reply;
        CHECK(skald::testing::wait_until([&] { return (reply = b.broker.get(answers)).has_value(); }, 30s));
        REQUIRE(reply);
        CHECK(reply->body == R"({"cents":10})");
        CHECK(reply->id() == "m-a:quote.reply");
        return std::string{view(reply->properties.correlation_id)};
    };
    CHECK(ask("1") == "1");
    CHECK(ask("2") == "2");
    CHECK(b.service.db.rows("SELECT key, handler, convert_from(body, 'UTF8') FROM skald.reply") ==
          R"(m-a|quote|{"cents":10})");

    // Whoever asked has gone: nothing waits for them.
    b.broker.delete_queue(answers);
    auto m = paid("b", 5);
    m.properties.reply_to = keep(answers);
    m.properties._flags |= AMQP_BASIC_REPLY_TO_FLAG;
    b.send("quote", m);
    CHECK(b.comes_to("SELECT count(*) FROM skald.reply", "2"));
    CHECK(b.comes_to("SELECT count(*) FROM skald.outbox", "0"));
    CHECK(b.service.db.one("SELECT count(*) FROM skald.unrouted") == "0");
    CHECK(b.service.db.one("SELECT count(*) FROM skald.unrouted_destination") == "0");
}

TEST_CASE("a reply has at most 1 MiB without a shared store, and one that has more says how large it is")
{
    books b;
    b.send("quote", paid("as large as may be", 1));
    CHECK(b.comes_to("SELECT key, octet_length(body) FROM skald.reply", "m-as large as may be|1048576"));
    b.send("quote", paid("too large", 1));
    CHECK(b.comes_to(
        "SELECT reason, error FROM skald.parked",
        "attempts_exhausted|the reply of quote has 1048577 bytes: more than 1048576 go to whoever asked only "
        "by a store that both read: set SKALD_BODY_STORE in both, see docs/bodies.md"));
}

TEST_CASE("a key that a sender names counts where the message came over Skald's exchange, and nowhere else")
{
    books b;
    auto m = paid("a", 5);
    m.set("skald-message-key", "of-another");
    m.set("skald-message-scope", "acme");
    m.set("skald-message-id", "none");
    m.set("skald-message-type", "none");
    b.failures = 1;  // so that it is sent again, as Skald sends it
    b.tell(m);
    CHECK(b.comes_to(entries, "a=5"));
    CHECK(b.service.db.rows("SELECT scope, key, attempts FROM skald.idempotency") == "|a|2");
    // The genuine one of that key is not taken for a copy.
    b.tell(paid("of-another", 6));
    CHECK(b.comes_to(entries, "a=5 of-another=6"));

    m = paid("b", 7);
    m.set("skald-message-key", "as-said");
    b.send("payment-created", m);
    CHECK(b.comes_to("SELECT key FROM skald.idempotency ORDER BY created_at DESC LIMIT 1", "as-said"));
}

TEST_CASE("a handler starts a saga and publishes, once")
{
    books b;
    for (int copy = 0; copy < 4; ++copy) b.send("begin", paid("a", 5));
    CHECK(b.comes_to("SELECT key, status FROM skald.saga", "of-m-a|completed"));
    CHECK(b.comes_to("SELECT id FROM entry", "by saga a"));
    CHECK(b.comes_to("SELECT destination, idempotency_key FROM skald.unrouted", "nobody|m-a:begin.1.begun"));
}

TEST_CASE("a saga of the same key is another thing: a command for it does not touch the message")
{
    books b;
    b.service.db.run("INSERT INTO skald.control (scope, key, home, action) VALUES ('', 'a', 'books', 'close'), "
                     "('', 'a', 'orders', 'pause')");
    b.tell(paid("a", 5));
    CHECK(b.comes_to(entries, "a=5"));
}

TEST_CASE("records of messages are purged by their age, with their replies, and not while one is parked")
{
    books b;
    b.send("quote", paid("a", 5));
    b.failures = 3;
    b.tell(paid("b", 5));
    CHECK(b.comes_to("SELECT key FROM skald.reply", "m-a"));
    CHECK(b.comes_to("SELECT key FROM skald.parked", "b"));
    CHECK(b.comes_to("SELECT count(*) FROM skald.outbox", "0"));
    auto const purge = "SELECT answers, records FROM skald.purge(interval '1 day', 100)";
    CHECK(b.service.db.rows(purge) == "0|0");
    b.service.db.run("UPDATE skald.idempotency SET updated_at = updated_at - interval '2 days'");
    CHECK(b.service.db.rows("SELECT answers FROM skald.purgeable(interval '1 day')") == "1");
    CHECK(b.service.db.rows(purge) == "1|2");
    CHECK(b.service.db.rows("SELECT key FROM skald.idempotency") == "b");
    CHECK(b.service.db.one("SELECT count(*) FROM skald.reply") == "0");
    // Somebody has deleted what was parked, and not through Skald: nothing waits for an operator any more.
    b.service.db.run("DELETE FROM skald.parked");
    CHECK(b.service.db.rows(purge) == "1|1");
    CHECK(b.service.db.one("SELECT count(*) FROM skald.idempotency") == "0");
}
