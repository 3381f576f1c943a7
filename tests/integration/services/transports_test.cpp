// Services without a broker, and services that move from a broker to PostgreSQL while orders come.
#include "support/peers_file.hpp"
#include "support/server_setting.hpp"
#include "support/skald_command.hpp"

using namespace skald::test;

namespace {

environment without_broker(fresh_database const& database, peers_file const& peers)
{
    return {{"DATABASE_URL", database.url()},
            {"SKALD_TRANSPORT", "postgres"},
            {"SKALD_PEERS_FILE", peers.path},
            {"PATH", "/usr/bin:/bin"}};
}

/// A second process of each of the shop's services.
struct second_set
{
    explicit second_set(shop& s)
        : peers{lines_of(s)}, orders{shop::program("order"),
                                     {"--listen", "127.0.0.1:0"},
                                     without_broker(s.orders_db, peers)},
          payments{shop::program("payment"), {}, without_broker(s.payments_db, peers)},
          shipping{shop::program("shipping"), {}, without_broker(s.shipping_db, peers)}
    {}

    void start(shop& s)
    {
        for (auto* one : all()) one->start();
        for (auto* one : all()) s.wait_until_started(*one);
    }
    raw_answer order(std::string const& key)
    {
        return raw_client{orders.http_port()}.ask(shop::post(key, order_request{}.body()));
    }
    std::array<service_process*, 3> all() { return {&orders, &payments, &shipping}; }

    peers_file peers;
    service_process orders, payments, shipping;
};

skald::test::told doctor_of(environment variables)
{
    service_process command{SKALD_TOOL, {"doctor", "--json"}, std::move(variables)};
    command.start();
    auto const end = command.wait();
    return {end.code.value_or(-1), command.log()};
}

}  // namespace

TEST_CASE("orders go on while their services move from the broker to PostgreSQL alone")
{
    shop s;
    s.open();
    second_set next{s};
    for (int i = 0; i < 20; ++i) CHECK(s.order("before-" + std::to_string(i)).status == 202);
    next.start(s);
    for (int i = 0; i < 20; ++i) {
        CHECK(s.order("old-" + std::to_string(i)).status == 202);
        CHECK(next.order("new-" + std::to_string(i)).status == 202);
    }
    // As docs/transports.md says: no more requests to the old ones, and they go when nothing waits for them.
    CHECK(wait_until([&] { return s.sagas_not_ended() == 0 && s.outboxes_empty() && s.waiting_deliveries() == 0; }));
    s.close_in_order();
    CHECK(s.waiting_deliveries() == 0);
    for (int i = 0; i < 20; ++i) CHECK(next.order("after-" + std::to_string(i)).status == 202);
    CHECK(s.all_end());
    CHECK(s.outboxes_empty());
    CHECK(s.orders_db.count("customer_order WHERE status = 'confirmed'") == 80);
    CHECK(s.parked_in_all() == 0);
    s.check_books(100001, 1000);
    CHECK(wait_until([&] { return s.payments_db.count("skald.inbox") == 0; }));
    for (auto* one : next.all()) CHECK(one->terminate().code == 0);
    CHECK(s.payments_db.count("skald.consumer") == 0);
}

TEST_CASE("a service that is killed over and over without a broker loses nothing, and does nothing twice")
{
    shop s;
    second_set only{s};
    only.start(s);
    s.fill();
    for (int round = 0; round < 3; ++round)
        for (auto* one : only.all()) {
            std::array const names{"a", "b", "c", "d"};
            for (auto const* name : names)
                only.order(std::string{name} + std::to_string(round) + std::to_string(one->pid()));
            one->kill(SIGKILL);
            one->wait();
            one->start();
            s.wait_until_started(*one);
        }
    CHECK(s.all_end());
    CHECK(s.outboxes_empty());
    CHECK(s.parked_in_all() == 0);
    s.check_books(100001, 1000);
    for (auto* one : only.all()) CHECK(one->terminate().code == 0);
}

TEST_CASE("skald doctor says what of the inboxes is not as it should be")
{
    no_absent_standby const meanwhile;
    shop s;
    second_set only{s};
    only.start(s);
    auto const variables = without_broker(s.orders_db, only.peers);
    auto const well = doctor_of(variables);
    CHECK_MESSAGE(well.code == 0, well.text);
    CHECK(level(well.object(), "inbox") == "ok");
    CHECK(level(well.object(), "peer") == "ok");

    // A message handler that was taken out of the code.
    s.orders_db.ask("INSERT INTO skald.queue (name) VALUES ('orders.on.gone')");
    s.orders_db.ask("INSERT INTO skald.binding (routing_key, queue) VALUES ('entered', 'orders.on.gone')");
    CHECK(level(doctor_of(variables).object(), "inbox") == "warning");
    s.orders_db.ask("SELECT skald.deliver(ARRAY['entered'], ARRAY['m'], ARRAY['x'], ARRAY['text/plain'], ARRAY['{}'], "
                    "ARRAY[''::bytea])");
    auto const grows = doctor_of(variables);
    CHECK(level(grows.object(), "inbox") == "problem");
    std::string const first = "DELETE FROM skald.binding WHERE queue = 'orders.on.gone'", next = "; DELETE FROM skald.";
    std::array const removing{first, next + "queue WHERE name = 'orders.on.gone'",
                              next + "inbox WHERE queue = 'orders.on.gone'"};
    CHECK_MESSAGE(grows.text.find(removing[0] + removing[1] + removing[2]) != std::string::npos, grows.text);
    for (auto const& one : removing) s.orders_db.ask(one.substr(one.find("DELETE")));
    CHECK(level(doctor_of(variables).object(), "inbox") == "ok");

    for (auto* one : only.all()) one->terminate();
    CHECK(level(doctor_of(variables).object(), "inbox") == "warning");
    s.orders_db.ask("SELECT skald.deliver(ARRAY['orders'], ARRAY['m'], ARRAY['x'], ARRAY['text/plain'], ARRAY['{}'], "
                    "ARRAY[''::bytea])");
    CHECK(level(doctor_of(variables).object(), "inbox") == "problem");
    s.payments_db.ask("UPDATE skald.service SET place = 'elsewhere'");
    CHECK(doctor_of(variables).text.find("skald migrate --service payments --adopt") != std::string::npos);
    s.payments_db.ask("UPDATE skald.service SET place = skald.place()");
    // What the relay wrote beside the message; a restart of it is what has to be done.
    s.orders_db.ask("SELECT skald.enqueue('payments', 'x', 'k:x', '', delay => '1 h');"
                    "UPDATE skald.outbox SET error = 'payments: it is another database than the one that this process "
                    "has sent to: ...', attempts = 1");
    CHECK(level(doctor_of(variables).object(), "refused messages") == "problem");
    s.orders_db.ask(
        "UPDATE skald.outbox SET error = 'payments: this role lacks the right INSERT on skald.inbox there'");
    CHECK(level(doctor_of(variables).object(), "refused messages") == "problem");
    s.orders_db.ask("SELECT skald.move_to_unrouted(ARRAY[id], ARRAY['nobody is bound']) FROM skald.outbox");
    CHECK(doctor_of(variables).text.find("let a service bind a handler to that key") != std::string::npos);
    s.orders_db.ask("DELETE FROM skald.unrouted; DELETE FROM skald.unrouted_destination");
    s.payments_db.ask("DELETE FROM skald.queue");
    auto const undeclared = doctor_of(variables);
    CHECK(undeclared.text.find("nothing consumes the inbox of payments") != std::string::npos);
    s.payments_db.ask("DROP ROLE IF EXISTS skald_test_half_sender");
    s.payments_db.ask("CREATE ROLE skald_test_half_sender LOGIN");
    s.payments_db.ask("GRANT USAGE ON SCHEMA skald TO skald_test_half_sender");
    s.payments_db.ask("GRANT SELECT ON skald.service, skald.queue TO skald_test_half_sender");
    s.payments_db.ask(
        "GRANT INSERT (queue, message_id, type, content_type, headers) ON skald.inbox TO skald_test_half_sender");
    auto half = s.payments_db.url();
    half.replace(half.find("://") + 3, half.find('@') - half.find("://") - 3, "skald_test_half_sender");
    {
        std::ofstream{only.peers.path} << "payments=" << half << '\n';
    }
    auto const barred = doctor_of(variables);
    CHECK(barred.code == 1);
    CHECK_MESSAGE(barred.text.find("it lacks SELECT on skald.binding, INSERT (body) on skald.inbox") !=
                      std::string::npos,
                  barred.text);
    s.payments_db.ask("REVOKE USAGE ON SCHEMA skald FROM skald_test_half_sender");
    auto const shut_out = doctor_of(variables);
    CHECK_MESSAGE(shut_out.text.find("this role lacks the right USAGE on the schema skald there") != std::string::npos,
                  shut_out.text);
    s.payments_db.ask("DROP OWNED BY skald_test_half_sender");
    s.payments_db.ask("DROP ROLE skald_test_half_sender");
    {
        std::ofstream{only.peers.path} << "payments=" << s.shipping_db.url()
                                       << "\nshipping=postgresql://nobody@127.0.0.1:1/x\n";
    }
    auto const ill = doctor_of(variables);
    CHECK(ill.code == 1);
    CHECK(ill.text.find("the database of payments in SKALD_PEERS_FILE is that of `shipping`") != std::string::npos);
    CHECK(ill.text.find("the database of shipping can't be used") != std::string::npos);
}

TEST_CASE("a command that is about a broker says that there is none")
{
    shop s;
    peers_file const peers{lines_of(s)};
    for (std::vector<std::string> const& words :
         {std::vector<std::string>{"declare", "--service", "orders"},
          std::vector<std::string>{"duplicate", "--staging", "--service", "orders"}}) {
        service_process command{SKALD_TOOL, words, without_broker(s.orders_db, peers)};
        CHECK(command.run().code == 2);
        CHECK_MESSAGE(command.has_logged("with SKALD_TRANSPORT=postgres there is none"), command.log());
    }
}

TEST_CASE("a transport that is none, and a file of peers that says nothing, end a service with 2")
{
    shop s;
    peers_file const peers{lines_of(s)};
    auto const refuses = [&](environment const& changed, std::string const& words) {
        auto variables = without_broker(s.payments_db, peers);
        for (auto const& [name, value] : changed) variables[name] = value;
        service_process service{shop::program("payment"), {}, variables};
        CHECK_MESSAGE(service.run().code == 2, words, ": ", service.log());
        CHECK_MESSAGE(service.has_logged(words), words, ": ", service.log());
    };
    refuses({{"SKALD_TRANSPORT", "carrier-pigeon"}}, "is not rabbitmq, kafka or postgres");
    refuses({{"SKALD_TRANSPORT", "rabbitmq"}}, "SKALD_PEERS_FILE is of SKALD_TRANSPORT=postgres");
    refuses({{"SKALD_PEERS_FILE", "/nowhere"}}, "SKALD_PEERS_FILE /nowhere");
    std::ofstream{peers.path} << "payments: postgresql://secret@x/y\n";
    refuses({}, "line 1 is not SERVICE=URL");
}
