// Broker users that may do what docs/security.md says and nothing more; and services that declare nothing.
#include <fstream>
#include <regex>

#include "support/shop.hpp"

using namespace skald::test;

namespace {

std::pair<int, std::string> tool(std::vector<std::string> const& words, std::string const& database,
                                 environment const& more = {})
{
    environment variables{{"DATABASE_URL", database}, {"AMQP_URL", broker().url()}, {"PATH", "/usr/bin:/bin"}};
    for (auto const& [name, value] : more) variables[name] = value;
    service_process command{SKALD_TOOL, words, variables};
    command.start();
    auto const end = command.wait();
    return {end.code.value_or(-1), command.log()};
}

/// The page's `rabbitmqctl set_permissions` with this number, for one service: its three regular expressions.
std::string permissions_of(std::string const& service, int number)
{
    std::ifstream file{SKALD_SECURITY_PAGE};
    std::ostringstream read;
    read << file.rdbuf();
    auto const page = read.str();
    std::string const command{"rabbitmqctl set_permissions -p shop payments "};
    auto at = page.find(command);
    for (int n = 1; n < number && at != std::string::npos; ++n) at = page.find(command, at + 1);
    REQUIRE(at != std::string::npos);
    at += command.size();
    auto const words = page.substr(at, page.find("```", at) - at);
    return std::regex_replace(std::regex_replace(words, std::regex{"payments"}, service), std::regex{"\\\\\n"}, " ");
}

/// Its services have users of their own.
class guarded_shop : public shop
{
public:
    guarded_shop()
    {
        for (std::string const service : service_names) rabbitmqctl("add_user " + user_of(service) + " secret");
        for (auto* service : services()) service->set_variable("AMQP_URL", as(name_of(*service)).url());
    }
    ~guarded_shop()
    {
        for (auto* service : services()) service->terminate();
        amqp_hands hands{broker()};
        for (std::size_t n = 0; n < service_names.size(); ++n) {
            rabbitmqctl("delete_user " + user_of(service_names[n]));
            hands.delete_queue(marker_of(n));
        }
        hands.delete_exchange("skald.parked");
    }

    /// As the page says, in the first way or in the second.
    void permit(int number)
    {
        for (std::string const service : service_names)
            rabbitmqctl("set_permissions -p " + broker().vhost + ' ' + user_of(service) + ' ' +
                        permissions_of(service, number));
    }
    /// As the page says of a relay.
    void permit_relay_of_payments()
    {
        rabbitmqctl("set_permissions -p " + broker().vhost + ' ' + user_of("payments") + " '^$' '^skald$' '^$'");
    }
    void declare_nothing()
    {
        for (auto* service : services()) service->set_variable("SKALD_DECLARE", "off");
    }
    void prepare_databases()
    {
        for (auto* service : services()) {
            service->set_arguments({"--migrate", "only"});
            REQUIRE_MESSAGE(service->run().code == 0, service->log());
        }
        orders.set_arguments({"--listen", "127.0.0.1:0"});
        payments.set_arguments({});
        shipping.set_arguments({});
    }
    void declare_all()
    {
        for (std::size_t n = 0; n < service_names.size(); ++n) {
            auto const [code, text] = tool({"declare", "--service", service_names[n]}, databases()[n]->url());
            REQUIRE_MESSAGE(code == 0, text);
        }
    }
    std::string user_of(std::string const& service) const { return service + '-' + word_; }
    amqp_place as(std::string const& service) const
    {
        auto place = broker();
        place.user = user_of(service);
        place.password = "secret";
        return place;
    }
    std::string name_of(service_process const& service)
    {
        for (std::size_t n = 0; n < service_names.size(); ++n)
            if (services()[n] == &service) return service_names[n];
        return {};
    }
    std::string marker_of(std::size_t n)
    {
        return std::string{"skald."} + service_names[n] + ".database." +
               databases()[n]->value("SELECT id FROM skald.service");
    }
    void sagas_run_both_ways()
    {
        REQUIRE(order("done").status == 202);
        REQUIRE(order("undone", {.sku = "rare"}).status == 202);
        CHECK(ends("done", "completed"));
        CHECK(ends("undone", "compensated"));
        CHECK(all_acked());
        for (auto* service : services()) CHECK_MESSAGE(!service->has_logged("ACCESS_REFUSED"), service->log());
    }

private:
    std::string word_{random_word()};
};

std::string refusal(std::function<void()> const& what)
try {
    what();
    return "was allowed";
}
catch (std::exception const& error) {
    return error.what();
}

bool is_refused(std::function<void()> const& what)
{
    auto const text = refusal(what);
    INFO(text);
    return text.find("ACCESS_REFUSED") != std::string::npos;
}

}  // namespace

TEST_CASE_FIXTURE(guarded_shop, "services that declare nothing run with users that may configure nothing")
{
    prepare_databases();
    declare_all();
    permit(1);
    declare_nothing();
    open();
    sagas_run_both_ways();

    // A delivery that the broker gives up on reaches the table by way of the other queue.
    amqp_hands operator_of_all{broker()};
    raw_message odd;
    odd.destination = "payments.parked";
    odd.body = "odd";
    operator_of_all.send(odd);
    CHECK(wait_until([&] { return payments_db.count("skald.parked") == 1; }));

    auto const as_payments = [&](auto const& what) {
        return [&] { what(*std::make_unique<amqp_hands>(as("payments"))); };
    };
    CHECK(is_refused(as_payments([](amqp_hands& own) { own.declare_queue("skald.payments.more"); })));
    CHECK(is_refused(as_payments([](amqp_hands& own) { own.delete_queue("skald.payments"); })));
    CHECK(is_refused(as_payments([](amqp_hands& own) { own.bind("skald.payments", "skald", "orders"); })));
    CHECK(is_refused(as_payments([](amqp_hands& own) { own.look_at_next("skald.orders", [](auto const&) {}); })));
    CHECK(is_refused(as_payments([](amqp_hands& own) {
        raw_message direct;  // past the exchange
        direct.destination = "orders";
        own.send(direct);
        own.expect_accepted();
    })));

    // The service's own user may see that all is well too.
    auto const seen =
        tool({"doctor"}, payments_db.url(), {{"AMQP_URL", as("payments").url()}, {"SKALD_DECLARE", "off"}});
    CHECK_MESSAGE(seen.second.find("ok       queue") != std::string::npos, seen.second);
    close_in_order();

    permit_relay_of_payments();
    payments_db.value("SELECT skald.enqueue('orders', 'hello', 'one', '{}', '{}')");
    auto const relayed = tool({"relay", "--until-empty"}, payments_db.url(),
                              {{"AMQP_URL", as("payments").url()}, {"SKALD_DECLARE", "off"}});
    CHECK_MESSAGE(relayed.first == 0, relayed.second);
    CHECK_MESSAGE(relayed.second.find("1 messages moved") != std::string::npos, relayed.second);
}

TEST_CASE_FIXTURE(guarded_shop, "services that declare for themselves need no more than the page says")
{
    permit(2);
    open();
    sagas_run_both_ways();
    declare_all();  // what it would make is there, but for its own
    close_in_order();
}

TEST_CASE_FIXTURE(guarded_shop, "what is missing where nothing is declared is named at the start, with what makes it")
{
    prepare_databases();
    declare_nothing();
    for (auto* service : services()) service->set_variable("AMQP_URL", broker().url());
    amqp_hands hands{broker()};
    hands.delete_exchange("skald.parked");
    auto const refuses = [&](std::string const& what) {
        payments.start();
        CHECK(payments.wait(std::chrono::seconds{60}).code == 2);
        CHECK_MESSAGE(payments.has_logged(what + " does not exist"), payments.log());
        CHECK_MESSAGE(payments.has_logged("`skald declare --service payments`"), payments.log());
    };
    refuses("exchange `skald.parked`");
    for (std::string const name : {"skald.payments", "skald.payments.parked"}) {
        declare_all();
        hands.delete_queue(name);
        refuses("queue `" + name + "`");
    }
    declare_all();
    hands.delete_queue(marker_of(1));
    refuses("queue `" + marker_of(1) + "`");
    declare_all();
    payments.start();
    wait_until_started(payments);

    // And while it runs.
    hands.delete_queue("skald.payments");
    CHECK(wait_until([&] { return payments.has_logged("broker.topology_mismatch"); }));
    CHECK_MESSAGE(payments.has_logged("queue `skald.payments` does not exist"), payments.log());
    declare_all();
    CHECK(wait_until([&] { return hands.waiting_in("skald.payments") == 0 && payments.is_running(); }));
    CHECK(payments.terminate().code == 0);
}

TEST_CASE_FIXTURE(guarded_shop,
                  "a process with another database than its service's does not start where nothing is declared")
{
    prepare_databases();
    declare_all();
    fresh_database wrong{"wrong"};
    service_process other{program("payment"),
                          {"--migrate", "only"},
                          {{"DATABASE_URL", wrong.url()}, {"AMQP_URL", broker().url()}, {"SKALD_DECLARE", "off"}}};
    REQUIRE(other.run().code == 0);
    other.set_arguments({});
    other.start();
    CHECK(other.wait(std::chrono::seconds{60}).code == 2);
    CHECK_MESSAGE(other.has_logged("check DATABASE_URL"), other.log());

    // Nor does its relay, whatever little its user may do.
    permit_relay_of_payments();
    auto const relayed =
        tool({"relay", "--until-empty"}, wrong.url(), {{"AMQP_URL", as("payments").url()}, {"SKALD_DECLARE", "off"}});
    CHECK(relayed.first == 2);
    CHECK_MESSAGE(relayed.second.find("check DATABASE_URL") != std::string::npos, relayed.second);

    // Nor does an operator give its messages to that one by mistake.
    auto const [code, text] = tool({"declare", "--service", "payments"}, wrong.url());
    CHECK(code == 1);
    CHECK_MESSAGE(text.find("belong to another database") != std::string::npos, text);
    CHECK_MESSAGE(text.find("Its messages go with it") == std::string::npos, text);  // what else to delete
}

TEST_CASE_FIXTURE(guarded_shop, "a service that may not declare what it would is told of SKALD_DECLARE")
{
    permit(1);
    prepare_databases();
    payments.start();
    CHECK(wait_until([&] { return payments.has_logged("SKALD_DECLARE=off"); }));
    CHECK_MESSAGE(payments.has_logged("ACCESS_REFUSED"), payments.log());
    CHECK(payments.is_running());  // as with a wrong password: somebody may put it right
    CHECK(payments.terminate().code == 0);
}

TEST_CASE("skald declare wants to know for which database")
{
    fresh_database database{"declare"};
    auto const [code, text] = tool({"declare", "--service", "payments"}, database.url());
    CHECK(code == 2);
    CHECK_MESSAGE(text.find("skald migrate") != std::string::npos, text);
    CHECK(tool({"declare", "--service", "payments", "--database", "payments"}, database.url()).first == 2);
    CHECK(tool({"declare"}, database.url()).first == 2);
}
