// Messages that belong to no saga: at each point that the handling of one passes, the service is killed, stopped, or
// loses a connection. Each has one effect, and whoever asks gets the same reply, byte for byte.
#include "armament.hpp"
#include "support/amqp_hands.hpp"
#include "support/fresh_database.hpp"
#include "support/required.hpp"
#include "support/stack_control.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>

using namespace skald::crash;
using namespace skald::test;
using namespace std::chrono_literals;

namespace {

constexpr std::array actions{"kill", "throw", "reset", "stop"};
constexpr unsigned hits_max = 2;
constexpr auto answers = "ledger-answers";

/// The service `ledger`, with failpoints, on a vhost of its own.
class ledger
{
public:
    ledger()
    {
        rabbitmqctl("add_vhost " + broker_.vhost);
        rabbitmqctl("set_permissions -p " + broker_.vhost + ' ' + broker_.user + " '.*' '.*' '.*'");
        hands_ = std::make_unique<amqp_hands>(broker_);
        hands_->declare_queue(answers);
        environment variables{{"DATABASE_URL", db.url()},
                              {"AMQP_URL", broker_.url()},
                              {"PATH", "/usr/bin:/bin"},
                              {"SKALD_LANES", "1"},
                              {"SKALD_DISPATCH_GRACE_MS", "500"}};  // what is lost from memory comes that late
        arms.add_to(variables);
        process_ = std::make_unique<service_process>(SKALD_LEDGER, std::vector<std::string>{}, variables);
        process_->start();
        REQUIRE(wait_until([&] { return is_up(); }));
    }
    ~ledger()
    {
        process_->kill(SIGKILL);
        rabbitmqctl("delete_vhost " + broker_.vhost);
    }

    void ask(std::string const& id, int copy)
    {
        raw_message m;
        m.body = R"({"id":")" + id + R"(","cents":5})";
        m.properties.reply_to = keep(answers);
        m.properties.correlation_id = keep(id + '/' + std::to_string(copy));
        m.properties._flags |= AMQP_BASIC_REPLY_TO_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG;
        hands_->publish("bank", "deposit.made", m);
    }

    /// The bodies of all replies to that copy. A reply may come twice; what is sent is sent at least once.
    std::set<std::string> replies(std::string const& id, int copy)
    {
        while (auto const reply = hands_->get(answers))
            replies_[std::string{view(reply->properties.correlation_id)}].insert(reply->body);
        return replies_[id + '/' + std::to_string(copy)];
    }

    /// Heals what was broken: starts what died, without its fault, and continues what was stopped. True if it is up.
    bool is_up()
    {
        if (!process_->is_running()) {
            arms.disarm();
            process_->start();
        }
        if (is_stopped(process_->pid())) process_->kill(SIGCONT);
        return process_->has_logged(" worker.started ");
    }

    /// Nothing is on its way any more.
    bool is_at_rest()
    {
        return is_up() && db.ask("SELECT count(*) FROM skald.outbox") == table{{"0"}} &&
               hands_->waiting_in("skald.ledger.on.deposit") == 0;
    }

    fresh_database db{"ledger"};
    armament arms;

private:
    static amqp_place own_place()
    {
        amqp_place made{required("AMQP_URL")};
        made.vhost = "messages-" + random_word();
        return made;
    }

    amqp_place broker_{own_place()};
    std::unique_ptr<amqp_hands> hands_;
    std::unique_ptr<service_process> process_;
    std::map<std::string, std::set<std::string>> replies_;  // by correlation
};

/// What one run has passed, and whether its fault struck: how often a relay polls is chance.
struct passed
{
    std::map<std::string, unsigned> hits;
    bool sprang{};
};

// How long to wait for a fault that should have struck by the time that all is at rest.
constexpr auto late_hit = 400ms;

/// One message with a fault, and then a copy of it.
passed run(ledger& l, std::string const& id, std::string const& fault)
{
    INFO(id, " with ", fault.empty() ? "no fault" : fault);
    l.arms.arm(fault);
    for (int copy : {1, 2}) {
        l.ask(id, copy);
        CHECK(wait_until([&] { return l.is_up() && !l.replies(id, copy).empty(); }, 60s));
    }
    CHECK(wait_until([&] { return l.is_at_rest(); }, 60s));
    bool const struck = !fault.empty() && wait_until([&] { return l.arms.sprang(); }, late_hit);
    CHECK(wait_until([&] { return l.is_at_rest(); }, 60s));
    passed what{l.arms.hits(), struck};
    l.arms.disarm();

    CHECK(l.db.ask("SELECT count(*) FROM deposit WHERE id = '" + id + '\'') == table{{"1"}});
    CHECK(l.db.ask("SELECT status FROM skald.idempotency WHERE key = '" + id + '\'') == table{{"completed"}});
    CHECK(l.db.ask("SELECT count(*) FROM skald.parked") == table{{"0"}});
    auto const stored = l.db.ask("SELECT convert_from(body, 'UTF8') FROM skald.reply WHERE key = '" + id + '\'');
    REQUIRE(stored.size() == 1);
    for (int copy : {1, 2}) CHECK(l.replies(id, copy) == std::set<std::string>{stored[0].at(0)});
    return what;
}

}  // namespace

TEST_CASE("whatever breaks at whatever point, a message has one effect, and all who ask get one reply")
{
    ledger l;
    int number = 0, runs = 0, struck = 0;
    std::map<std::string, unsigned> covered;
    for (std::string const kind : {"asked", "flaky"}) {
        auto const id = [&] { return kind + '-' + std::to_string(++number); };
        auto const undisturbed = run(l, id(), "");
        for (auto const& [point, count] : undisturbed.hits) {
            for (auto hit = covered[point] + 1; hit <= std::min(count, hits_max); ++hit)
                for (std::string const action : actions) {
                    ++runs;
                    struck += run(l, id(), point + '=' + action + '@' + std::to_string(hit)).sprang ? 1 : 0;
                }
            covered[point] = std::max(covered[point], std::min(count, hits_max));
        }
    }
    MESSAGE(runs, " runs at ", covered.size(), " points, in ", struck, " of which the fault struck");
    CHECK(struck * 10 > runs * 9);
    for (std::string const point :
         {"consumer.delivered", "consumer.parsed", "step.claimed", "step.ran", "step.before_commit", "step.committed",
          "step.acked", "relay.deleting", "step.rolled_back", "memory.taken", "memory.confirmed", "relay.taken",
          "relay.confirmed"})
        CHECK_MESSAGE(covered[point] > 0, point);
}
