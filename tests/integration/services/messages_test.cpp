// Messages that belong to no saga, to processes that are killed all the time.
#include "support/shop.hpp"

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
    explicit ledger(int processes = 2)
    {
        amqp_hands hands{broker()};
        hands.delete_queue("skald.ledger.database");
        hands.delete_queue("skald.ledger.on.deposit");
        hands.delete_queue(answers);
        hands.declare_queue(answers);
        for (int n = 0; n < processes; ++n)
            all.push_back(std::make_unique<service_process>(
                SKALD_LEDGER_SERVICE, std::vector<std::string>{},
                environment{{"DATABASE_URL", db.url()}, {"AMQP_URL", broker().url()}, {"PATH", "/usr/bin:/bin"}}));
        for (auto const& one : all) {
            one->start();
            REQUIRE_MESSAGE(wait_until([&] { return one->has_logged("worker.started"); }), one->log());
        }
    }

    void send(int id, int copy)
    {
        raw_message m;
        m.body = R"({"id":"d)" + std::to_string(id) + R"(","cents":5})";
        m.properties.reply_to = keep(answers);
        m.properties.correlation_id = keep(std::to_string(id) + '/' + std::to_string(copy));
        m.properties._flags |= AMQP_BASIC_REPLY_TO_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG;
        out.publish("bank", "deposit.made", m);
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
    CHECK(declare("deposit=bank:deposit.late").starts_with("0 "));
    auto const missing = declare("deposit=nobody:deposit");
    CHECK(!missing.starts_with("0 "));
    CHECK(missing.find("exchange `nobody` does not exist") != std::string::npos);
    CHECK(missing.find("its owner declares it") != std::string::npos);
    CHECK(declare("deposit=bank").find("NAME=EXCHANGE:ROUTING_KEY") != std::string::npos);
}
