// `skald duplicate` on a real broker: beside the running order example, and beside a queue of a test's own, to
// see exactly what it sends.
#include <map>

#include "support/amqp_text.hpp"
#include "support/shop.hpp"
#include "support/tcp_proxy.hpp"

using namespace skald::test;

namespace {

/// `skald duplicate ...`, at work when it is built.
class duplicating
{
public:
    explicit duplicating(std::vector<std::string> words, amqp_place const& where = broker())
        : tool_{SKALD_TOOL, with(std::move(words)), {{"AMQP_URL", where.url()}, {"PATH", "/usr/bin:/bin"}}}
    {
        tool_.start();
        bool const is_up = wait_until([&] { return tool_.has_logged("Ctrl-C ends it") || !tool_.is_running(); });
        REQUIRE_MESSAGE(is_up, tool_.log());
        REQUIRE_MESSAGE(tool_.is_running(), tool_.log());
    }

    /// SIGTERM; what it says at the end.
    json end()
    {
        auto const ended = tool_.terminate();
        CHECK_MESSAGE(ended.code == 0, tool_.log());
        auto const log = tool_.log();
        return json::parse(log.substr(log.find("\n{") + 1));
    }

    service_process& process() { return tool_; }

    static environment variables() { return {{"AMQP_URL", broker().url()}, {"PATH", "/usr/bin:/bin"}}; }

private:
    static std::vector<std::string> with(std::vector<std::string> words)
    {
        words.insert(words.begin(), {"duplicate", "--staging", "--json"});
        return words;
    }

    service_process tool_;
};

struct ended
{
    int code{};
    std::string text;
};

ended run_duplicate(std::vector<std::string> words, environment variables = duplicating::variables())
{
    words.insert(words.begin(), "duplicate");
    service_process tool{SKALD_TOOL, std::move(words), std::move(variables)};
    auto const end = tool.run();
    return {end.code.value_or(-1), tool.log()};
}

// What is bound, which the broker knows without asking the queues: of one that is just going it may get no answer.
std::string queues()
{
    return rabbitmqctl("-q list_bindings --no-table-headers -p " + broker().vhost + " destination_name");
}

bool has_queue_of_duplicator()
{
    return queues().find("skald.duplicate.") != std::string::npos;
}

/// A queue as a service would have one, with nobody behind it but the test.
class probe
{
public:
    amqp_hands hands{broker()};

    probe()
    {
        hands.declare_exchange("skald");
        hands.delete_queue(queue);
        hands.declare_queue(queue);
        hands.bind(queue, "skald", "probe");
    }
    ~probe() { amqp_hands{broker()}.delete_queue(queue); }  // our connection may be closed

    void send(std::string body)
    {
        raw_message m;
        m.destination = "probe";
        m.body = std::move(body);
        hands.send_to_all(m);
    }
    bool holds(std::uint32_t count)
    {
        return wait_until([&] { return hands.waiting_in(queue) >= count; });
    }
    /// How often each message is there, by everything that can be seen of it.
    std::map<std::string, int> take_all()
    {
        std::map<std::string, int> counted;
        while (hands.look_at_next(queue, [&](amqp_message_t const& m) { ++counted[shown(m)]; })) continue;
        return counted;
    }

    static constexpr char const* queue = "skald.probe";
};

/// A message with a property and a header of every kind that a client may use.
raw_message odd_message()
{
    raw_message m;
    m.destination = "probe";
    m.body = std::string{"\xff\0{", 3};
    m.set_id("an id");
    m.set_type("a type");
    auto& p = m.properties;
    p.content_encoding = keep("gzip");
    p.correlation_id = keep("17");
    p.reply_to = keep("somewhere");
    p.app_id = keep("an app");
    p.priority = 3;
    p.timestamp = 1'767'225'600;
    p.delivery_mode = 2;
    p._flags |= AMQP_BASIC_CONTENT_ENCODING_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG | AMQP_BASIC_REPLY_TO_FLAG |
                AMQP_BASIC_APP_ID_FLAG | AMQP_BASIC_PRIORITY_FLAG | AMQP_BASIC_TIMESTAMP_FLAG |
                AMQP_BASIC_DELIVERY_MODE_FLAG;
    m.add("text", text_field("with \xff bytes"));
    amqp_field_value_t number{}, real{}, nested{};
    number.kind = AMQP_FIELD_KIND_I64;
    number.value.i64 = -5;
    real.kind = AMQP_FIELD_KIND_F64;
    real.value.f64 = 0.5;
    static amqp_table_entry_t inner{amqp_cstring_bytes("inner"), text_field("deep")};
    nested.kind = AMQP_FIELD_KIND_TABLE;
    nested.value.table = {1, &inner};
    m.add("number", number);
    m.add("real", real);
    m.add("nested", nested);
    return m;
}

}  // namespace

TEST_CASE("every delivery of dozens of sagas three times more, now and later: each effect is there once")
{
    shop s;
    for (auto* service : s.services()) service->set_variable("SKALD_LOG_LEVEL", "debug");
    s.open();
    duplicating copies{{"--service", "orders", "payments", "shipping", "--times", "3", "--later", "3s", "--seed", "6"}};
    constexpr int orders = 48;
    for (int i = 0; i < orders; ++i) {
        order_request what;
        if (i % 4 == 1) what.customer = "poor";
        if (i % 4 == 3) what.sku = "rare";
        // Where processors are short, a claim that waits for one may be told to ask again.
        REQUIRE(wait_until([&] { return s.order("k" + std::to_string(i), what).status == 202; }));
    }
    REQUIRE(s.all_end());
    auto const done = copies.end();
    CHECK(wait_until([&] { return s.waiting_deliveries() == 0; }));
    CHECK(s.outboxes_empty());

    // 24 complete (charge, ship, confirm), 12 are refused by the payments, 12 by the shipping,
    // which is undone in two steps.
    CHECK(done["seen"] >= 24 * 3 + 12 * 2 + 12 * 4);
    CHECK(done["duplicates"] == 3 * done["seen"].get<int>());
    CHECK(done["unconfirmed"] == 0);
    CHECK(!has_queue_of_duplicator());
    for (auto* service : s.services())
        CHECK_MESSAGE(service->has_logged(" step.duplicate "), "it has met duplicates, and found them to be such");

    s.close_in_order();
    CHECK_MESSAGE(s.waiting_deliveries() == 0, "what was not acked would wait again");
    CHECK(s.orders_db.count("skald.saga WHERE status = 'completed'") == orders / 2);
    CHECK(s.orders_db.count("skald.saga WHERE status = 'compensated'") == orders / 2);
    CHECK(s.payments_db.count("charge WHERE kind = 'refund'") == orders / 4);
    CHECK(s.parked_in_all() == 0);
    s.check_books(100001, 1000);
}

TEST_CASE("a duplicate is its original in everything that a consumer can see, and comes as often as it was asked for")
{
    probe p;
    duplicating copies{{"--service", "probe", "--times", "4", "--later", "0s"}};
    p.hands.send_to_all(odd_message());
    p.send("");
    p.send(std::string(300'000, 'x'));
    REQUIRE(p.holds(15));
    auto const done = copies.end();
    CHECK(done["seen"] == 3);
    CHECK(done["duplicates"] == 12);
    auto const all = p.take_all();
    CHECK(all.size() == 3);
    for (auto const& one : all) CHECK_MESSAGE(one.second == 5, one.first.substr(0, 1'000));
}

TEST_CASE("what a broker would obey, further routing keys and another user's name, is not in a duplicate")
{
    probe p;
    p.hands.delete_queue("elsewhere");
    p.hands.declare_queue("elsewhere");
    duplicating copies{{"--service", "probe", "--times", "2", "--later", "0s"}};
    raw_message m;
    m.destination = "probe";
    m.body = "once elsewhere";
    amqp_field_value_t more{};
    static std::array keys{text_field("elsewhere")};
    more.kind = AMQP_FIELD_KIND_ARRAY;
    more.value.array = {1, keys.data()};
    m.add("CC", more);
    m.properties.user_id = keep(broker().user);
    m.properties._flags |= AMQP_BASIC_USER_ID_FLAG;
    p.hands.send_to_all(m);
    REQUIRE(p.holds(3));
    CHECK(copies.end()["duplicates"] == 2);
    CHECK(p.hands.waiting_in("elsewhere") == 0);
    p.hands.delete_queue("elsewhere");
}

TEST_CASE("two duplicators side by side do not duplicate each other's duplicates")
{
    probe p;
    duplicating one{{"--service", "probe", "--times", "2", "--later", "100ms"}};
    duplicating other{{"--service", "probe", "--times", "3", "--later", "100ms"}};
    for (int i = 0; i < 20; ++i) p.send(std::to_string(i));
    REQUIRE(p.holds(20 * 6));
    CHECK(one.end()["seen"] == 20);
    CHECK(other.end()["seen"] == 20);
    auto const all = p.take_all();
    CHECK(all.size() == 20);
    for (auto const& each : all) CHECK_MESSAGE(each.second == 6, each.first);
}

TEST_CASE("what is held back is sent when it ends, and --for ends it by itself")
{
    probe p;
    duplicating copies{{"--service", "probe", "--times", "5", "--later", "10h"}};
    for (int i = 0; i < 30; ++i) p.send(std::to_string(i));
    REQUIRE(p.holds(60));  // the originals, and the first duplicate of each
    auto const done = copies.end();
    CHECK(done["duplicates"] == 150);
    CHECK(p.hands.waiting_in(p.queue) == 180);

    auto const by_itself = run_duplicate({"--staging", "--service", "probe", "--for", "200ms", "--seed", "3"});
    CHECK(by_itself.code == 0);
    CHECK(by_itself.text.find("0 messages seen, 0 duplicates sent and confirmed") != std::string::npos);
    CHECK(by_itself.text.find("3 times (seed 3)") != std::string::npos);
}

TEST_CASE("a duplicator that is killed leaves no queue behind, and the originals alone")
{
    probe p;
    duplicating copies{{"--service", "probe", "--later", "10h", "--times", "2"}};
    CHECK(has_queue_of_duplicator());
    p.send("one");
    REQUIRE(p.holds(2));
    copies.process().kill(SIGKILL);
    CHECK(wait_until([] { return !has_queue_of_duplicator(); }));
    p.send("two");
    REQUIRE(p.holds(3));
    CHECK(p.take_all().size() == 2);
}

TEST_CASE("a duplicator whose connections are closed comes back, and goes on")
{
    probe p;
    duplicating copies{{"--service", "probe", "--times", "1", "--later", "0s"}};
    p.send("before");
    REQUIRE(p.holds(2));
    rabbitmqctl("close_all_connections --vhost " + broker().vhost + " 'a test closes them'");
    REQUIRE(wait_until([&] { return copies.process().has_logged("the broker is away"); }));
    REQUIRE(wait_until([] { return has_queue_of_duplicator(); }));
    amqp_hands hands{broker()};
    CHECK(wait_until([&] {
        raw_message m;
        m.destination = "probe";
        m.body = "again";
        hands.send_to_all(m);
        std::map<std::string, int> counted;
        while (hands.look_at_next(p.queue, [&](amqp_message_t const& one) { ++counted[shown(one)]; })) continue;
        return std::ranges::any_of(counted, [](auto const& one) { return one.second > 1; });
    }));
    CHECK(copies.end()["unconfirmed"] == 0);
}

TEST_CASE("duplicates that were on their way when the connection was lost are sent again")
{
    probe p;
    skald::test::tcp_proxy proxy{broker().host, broker().port};
    auto through = broker();
    through.host = "127.0.0.1";
    through.port = proxy.port();
    duplicating copies{{"--service", "probe", "--times", "2", "--later", "0s"}, through};
    proxy.hold_requests(true);
    for (int i = 0; i < 50; ++i) p.send(std::to_string(i));
    REQUIRE(p.holds(50));
    // Asking takes longer than the duplicator, which has taken all of it by then and sent it to where nothing arrives.
    CHECK(has_queue_of_duplicator());
    proxy.cut_once();
    proxy.hold_requests(false);
    REQUIRE(wait_until([&] { return copies.process().has_logged("the broker is away"); }));
    auto const done = copies.end();
    CHECK(done["unconfirmed"] == 0);
    CHECK(done["duplicates"] == 2 * done["seen"].get<unsigned>());
    CHECK(p.hands.waiting_in(p.queue) == 50 + done["duplicates"].get<unsigned>());
}

TEST_CASE("a service's queue that is deleted meanwhile ends it: what is sent there would count as delivered")
{
    probe p;
    duplicating copies{{"--service", "probe"}};
    p.hands.delete_queue(p.queue);
    auto const ended = copies.process().wait();
    CHECK(ended.code == 1);
    CHECK_MESSAGE(copies.process().has_logged("the queue skald.probe is not there"), copies.process().log());
    CHECK(wait_until([] { return !has_queue_of_duplicator(); }));
}

TEST_CASE("skald duplicate does nothing unless it is told that this is no production system")
{
    probe p;
    auto const refused = run_duplicate({"--service", "probe"});
    CHECK(refused.code == 2);
    CHECK_MESSAGE(refused.text.find("say --staging") != std::string::npos, refused.text);
    CHECK_MESSAGE(refused.text.find(broker().host + ':' + std::to_string(broker().port)) != std::string::npos,
                  refused.text);
    CHECK(!has_queue_of_duplicator());
}

TEST_CASE("skald duplicate says what is wrong, and makes nothing that was not there")
{
    probe p;
    auto const nobody = run_duplicate({"--staging", "--service", "probe", "--service", "nobody"});
    CHECK(nobody.code == 1);
    CHECK_MESSAGE(nobody.text.find("skald.nobody is not there: start its service once") != std::string::npos,
                  nobody.text);
    CHECK(queues().find("nobody") == std::string::npos);
    CHECK(!has_queue_of_duplicator());

    auto const away = run_duplicate({"--staging", "--service", "probe"}, {{"AMQP_URL", "amqp://127.0.0.1:1"}});
    CHECK(away.code == 1);
    CHECK_MESSAGE(away.text.find("127.0.0.1:1") != std::string::npos, away.text);
    CHECK(run_duplicate({"--staging", "--service", "probe"}, {{"AMQP_URL", "http://127.0.0.1"}}).code == 2);
    for (auto const& words :
         std::vector<std::vector<std::string>>{{"--staging"},
                                               {"--staging", "--service", "probe", "--times", "0"},
                                               {"--staging", "--service", "probe", "--times", "101"},
                                               {"--staging", "--service", "probe", "--later", "soon"},
                                               {"--staging", "--service", "probe", "--later", "30"},
                                               {"--staging", "--service", "probe", "--seed", "x"}}) {
        auto const wrong = run_duplicate(words);
        CHECK_MESSAGE(wrong.code == 2, words.back(), ": ", wrong.text);
    }
    auto const help = run_duplicate({"--help"});
    CHECK(help.code == 0);
    for (auto const* word : {"--service", "--times", "--later", "--for", "--seed", "--staging"})
        CHECK_MESSAGE(help.text.find(word) != std::string::npos, word);
}
