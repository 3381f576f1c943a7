// Messages that belong to no saga, to processes that are killed all the time.
#include "support/server_setting.hpp"
#include "support/skald_command.hpp"
#include "support/temporary_directory.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace skald::test;
using namespace std::chrono_literals;

namespace {

/// Two processes of the service `ledger`, and what its customers got.
struct ledger
{
    explicit ledger(int processes = 2, std::string const& url = broker().url(), environment const& more = {})
    {
        amqp_hands hands{broker()};
        hands.delete_queue("skald.ledger.database");
        hands.delete_queue("skald.ledger.on.deposit");
        hands.delete_queue(answers);
        hands.declare_queue(answers);
        environment settings{{"DATABASE_URL", db.url()}, {"AMQP_URL", url}, {"PATH", "/usr/bin:/bin"}};
        settings.insert(more.begin(), more.end());
        for (int n = 0; n < processes; ++n)
            all.push_back(
                std::make_unique<service_process>(SKALD_LEDGER_SERVICE, std::vector<std::string>{}, settings));
        for (auto const& one : all) {
            one->start();
            REQUIRE_MESSAGE(wait_until([&] { return one->has_logged("worker.started"); }), one->log());
        }
    }

    void send(int id, int copy) { send('d' + std::to_string(id), id, copy); }
    void send(std::string const& deposit, int id, int copy)
    {
        raw_message m;
        m.body = R"({"id":")" + deposit + R"(","cents":5})";
        m.properties.reply_to = keep(answers);
        m.properties.correlation_id = keep(std::to_string(id) + '/' + std::to_string(copy));
        m.properties._flags |= AMQP_BASIC_REPLY_TO_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG;
        out.publish("bank", "deposit.made", m);
    }

    told doctor(std::string const& url = broker().url())
    {
        service_process command{
            SKALD_TOOL, {"doctor", "--json"}, environment{{"DATABASE_URL", db.url()}, {"AMQP_URL", url}}};
        auto const end = command.run();
        return {end.code.value_or(-1), command.log()};
    }
    bool comes_to(std::string const& sql, std::string const& answer)
    {
        return wait_until([&] { return db.ask(sql) == table{{answer}}; }, 60s);
    }

    /// Takes the replies that are there.
    void read_replies()
    {
        while (auto const reply = in.get(answers)) {
            std::string const asked{view(reply->properties.correlation_id)};
            answered.insert(asked);
            bodies[asked.substr(0, asked.find('/'))].insert(reply->body);
        }
    }

    std::string const answers{"ledger-answers"};
    fresh_database db{"ledger"};
    std::vector<std::unique_ptr<service_process>> all;
    amqp_hands out{broker()};
    amqp_hands in{broker()};
    std::set<std::string> answered;                       // by correlation
    std::map<std::string, std::set<std::string>> bodies;  // by id
};

}  // namespace

TEST_CASE("1,000 messages, 8 copies of each, and processes killed meanwhile: 1,000 effects, and one reply for each")
{
    constexpr int messages = 1'000, copies = 8;
    ledger l;
    std::vector<std::pair<int, int>> order;
    for (int id = 0; id < messages; ++id)
        for (int copy = 0; copy < copies; ++copy) order.emplace_back(id, copy);
    std::mt19937 random{20};
    std::ranges::shuffle(order, random);

    int killed = 0;
    for (std::size_t n = 0; n < order.size(); ++n) {
        l.send(order[n].first, order[n].second);
        if (n % 400 == 399) l.all[static_cast<std::size_t>(killed++) % l.all.size()]->kill_and_restart();
    }
    CHECK(wait_until(
        [&] {
            l.read_replies();
            return l.answered.size() == order.size();
        },
        120s));
    CHECK(killed == 20);
    CHECK(l.db.ask("SELECT count(*), count(DISTINCT id) FROM deposit") == table{{"1000", "1000"}});
    CHECK(l.db.ask("SELECT DISTINCT step, status, home FROM skald.idempotency") ==
          table{{"deposit", "completed", "-"}});
    CHECK(l.db.ask("SELECT count(*) FROM skald.parked") == table{{"0"}});
    CHECK(l.bodies.size() == messages);
    for (auto const& [id, all] : l.bodies) REQUIRE(all.size() == 1);
}

TEST_CASE("a large reply goes by reference to whoever shares the store, and a copy of the request gets the same one")
{
    temporary_directory const folder;
    ledger l{1, broker().url(), {{"SKALD_BODY_STORE", "directory:" + folder.path().string()}}};
    amqp_hands hands{broker()};
    std::string first;
    for (int copy = 0; copy < 2; ++copy) {
        l.send("large", 1, copy);
        std::optional<raw_message> reply;
        REQUIRE(wait_until([&] { return (reply = hands.get(l.answers)).has_value(); }));
        CHECK(reply->body.empty());
        auto const reference = reply->header("skald-body");
        CHECK(reference.find(";size=31457") != std::string::npos);
        CHECK(reference.ends_with(";store=directory:" + folder.path().string()));
        if (copy == 0) first = reference;
        CHECK(reference == first);
    }
    CHECK(l.db.ask("SELECT count(*) FROM deposit") == table{{"1"}});
    CHECK(l.db.ask("SELECT octet_length(body), kept IS NOT NULL FROM skald.reply") == table{{"0", "t"}});
    l.db.ask("DELETE FROM skald.outbox");
    CHECK(l.db.ask("SELECT count(*) FROM skald.body_in_use") == table{{"1"}});  // the stored reply's
}

TEST_CASE("replies that the broker refuses hold up nothing else, are seen by the doctor, and go once they may")
{
    auto const user = "ledger-" + random_word();
    auto const may_write = [&](std::string const& pattern) {
        rabbitmqctl("set_permissions -p " + broker().vhost + ' ' + user + " '.*' '" + pattern + "' '.*'");
    };
    rabbitmqctl("add_user " + user + " secret");
    may_write("^(skald.*|bank)$");
    auto place = broker();
    place.user = user;
    place.password = "secret";
    {
        ledger l{1, place.url()};
        constexpr int refused = 20;
        for (int id = 0; id < refused; ++id) l.send(id, 0);
        CHECK(l.comes_to("SELECT count(*) FROM deposit", "20"));
        CHECK(l.comes_to("SELECT count(*) FROM skald.outbox WHERE error LIKE '%ACCESS_REFUSED%amq.default%'", "20"));
        // What was committed after them leaves.
        for (int n = 0; n < 50; ++n)
            l.db.ask("SELECT skald.enqueue('ledger.on.deposit', 'deposit', 'later-" + std::to_string(n) +
                     "', convert_to('{\"id\":\"later-" + std::to_string(n) + "\",\"cents\":5}', 'UTF8'))");
        CHECK(l.comes_to("SELECT count(*) FROM deposit", "70"));
        CHECK(l.comes_to("SELECT count(*) FROM skald.outbox WHERE error IS NULL", "0"));
        CHECK(l.all[0]->has_logged("outbox.not_sent"));

        auto const ill = l.doctor(place.url());
        CHECK(ill.code == 1);
        CHECK_MESSAGE(level(ill.object(), "refused messages") == "problem", ill.text);
        CHECK(level(ill.object(), "replies") == "warning");
        CHECK(ill.text.find("the broker refuses 20 messages") != std::string::npos);
        CHECK(level(l.doctor().object(), "replies") == "ok");  // as another user

        may_write("^(skald.*|bank|amq[.]default)$");
        CHECK(wait_until(
            [&] {
                l.db.ask("UPDATE skald.outbox SET due_at = clock_timestamp()");
                l.read_replies();
                return l.answered.size() == refused;
            },
            120s));
        CHECK(l.comes_to("SELECT count(*) FROM skald.outbox", "0"));
        CHECK(l.db.ask("SELECT count(*) FROM skald.parked") == table{{"0"}});
        for (auto const& [id, all] : l.bodies) CHECK(all.size() == 1);
        auto const well = l.doctor(place.url());
        CHECK(level(well.object(), "refused messages") == "none");

        auto const shown = run_skald(l.db, {"saga", "show", "d0", "--json"});
        CHECK_MESSAGE(shown.code == 0, shown.text);
        auto const messages = shown.object()["messages"];
        REQUIRE(messages.size() == 1);
        CHECK(messages[0]["handler"] == "deposit");
        CHECK(messages[0]["status"] == "completed");
        CHECK(messages[0]["has_reply"] == true);
        CHECK(run_skald(l.db, {"saga", "show", "nobody"}).code == 1);
        CHECK(level(well.object(), "replies") == "ok");
    }
    rabbitmqctl("delete_user " + user);
}

TEST_CASE("skald doctor looks at each message handler's queue, and at the exchanges that it is bound to")
{
    no_absent_standby const meanwhile;
    ledger l{1};
    auto const seen = [&](std::string const& check = "handler deposit") { return level(l.doctor().object(), check); };
    auto const well = l.doctor();
    CHECK_MESSAGE(well.code == 0, well.text);
    CHECK(level(well.object(), "handler deposit") == "ok");
    CHECK(well.text.find("skald.ledger.on.deposit waits for bank:deposit.*") != std::string::npos);

    CHECK(l.all[0]->terminate().code == 0);
    CHECK(seen() == "warning");
    CHECK(l.doctor().text.find("no process consumes skald.ledger.on.deposit") != std::string::npos);

    l.out.delete_exchange("bank");
    CHECK(seen() == "problem");
    CHECK(l.doctor().text.find("the exchange bank does not exist") != std::string::npos);
    l.out.declare_exchange("bank", "fanout");
    CHECK(seen() == "problem");
    CHECK(l.doctor().text.find("exchange `bank` exists with other properties") != std::string::npos);
    l.out.delete_exchange("bank");
    l.out.declare_exchange("bank", "topic");
    CHECK(seen() == "warning");

    l.out.delete_queue("skald.ledger.on.deposit");
    CHECK(seen() == "problem");
    CHECK(l.doctor().text.find("skald.ledger.on.deposit does not exist") != std::string::npos);
    l.out.declare_queue("skald.ledger.on.deposit");  // a classic one
    CHECK(seen() == "problem");
    CHECK(l.doctor().text.find("exists with other properties") != std::string::npos);
    l.out.delete_queue("skald.ledger.on.deposit");
    l.db.ask("DELETE FROM skald.handler");
    CHECK(seen() == "none");
}

TEST_CASE("a service whose exchange does not exist says who declares it, and an operator declares its queue")
{
    // What the code asks for with a type is declared; by `skald declare`, nothing of others' is.
    ledger l{1};
    auto const declare = [&](std::string const& binding) {
        service_process tool{SKALD_TOOL,
                             {"declare", "--service", "ledger", "--handler", binding},
                             environment{{"DATABASE_URL", l.db.url()}, {"AMQP_URL", broker().url()}}};
        auto const end = tool.run();
        return std::to_string(end.code.value_or(-1)) + ' ' + tool.log();
    };
    auto const declared = declare("deposit=bank:deposit.late");
    CHECK(declared.starts_with("0 "));
    CHECK_MESSAGE(declared.find("message handler deposit: its queue, with 1 bindings") != std::string::npos, declared);
    auto const missing = declare("deposit=nobody:deposit");
    CHECK(!missing.starts_with("0 "));
    CHECK(missing.find("exchange `nobody` does not exist") != std::string::npos);
    CHECK(missing.find("its owner declares it") != std::string::npos);
    CHECK(declare("deposit=bank").find("NAME=EXCHANGE:ROUTING_KEY") != std::string::npos);
}
