// A service over Kafka as its operator meets it: topics are made by command, and doctor says what is wrong with them.
#include <cstdint>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/fresh_database.hpp"
#include "support/kafka_double.hpp"
#include "support/kafka_topics.hpp"
#include "support/required.hpp"
#include "support/service_process.hpp"

using namespace skald::test;
using nlohmann::json;

namespace {

struct told
{
    int code{};
    std::string text;

    bool says(std::string const& part) const { return text.find(part) != std::string::npos; }

    /// The lines of that check, "LEVEL: what; remedy" each.
    std::string check(std::string const& name) const
    {
        std::string all;
        auto const object = json::parse(text.substr(text.find('{')));
        for (auto const& one : object.at("checks"))
            if (one["check"] == name)
                all += one["level"].get<std::string>() + ": " + one["means"].get<std::string>() + "; " +
                       one["remedy"].get<std::string>() + "\n";
        return all;
    }
};

environment over_kafka(fresh_database const& database, environment const& more = {})
{
    environment made{{"DATABASE_URL", database.url()},
                     {"SKALD_TRANSPORT", "kafka"},
                     {"SKALD_KAFKA_BROKERS", required("SKALD_KAFKA_BROKERS")},
                     {"SKALD_KAFKA_PARTITIONS", "2"},
                     {"PATH", "/usr/bin:/bin"}};
    for (auto const& [name, value] : more) made[name] = value;
    return made;
}

told run_skald(environment const& variables, std::vector<std::string> const& words)
{
    service_process command{SKALD_TOOL, words, variables};
    auto const end = command.run();
    return {end.code.value_or(-1), command.log()};
}

constexpr char const* topic = "topic skald.payments";

// The names are the example's, whatever else has used this Kafka.
void forget_payments()
{
    delete_topics(required("SKALD_KAFKA_BROKERS"), {"skald.payments"});
}

}  // namespace

TEST_CASE("a service that may make no topics starts after `skald migrate --topics`, and doctor says how they are")
{
    forget_payments();
    fresh_database payments{"payments"};
    auto const variables = over_kafka(payments, {{"SKALD_DECLARE", "off"}});
    service_process service{std::string{SKALD_SERVICES_DIR} + "/payment_service", {}, variables};
    CHECK(service.run().code == 2);
    CHECK_MESSAGE(service.has_logged("Kafka has no topic `skald.payments`"), service.log());
    auto const missing = run_skald(variables, {"doctor", "--json"});
    CHECK(missing.code == 1);
    CHECK_MESSAGE(missing.check(topic).find("run `skald migrate --topics`") != std::string::npos, missing.text);
    auto const list = std::filesystem::temp_directory_path() / payments.name();
    std::ofstream{list} << "payments=" << payments.url() << '\n';
    auto const unseen = run_skald(variables, {"audit", "--databases", list});
    CHECK_MESSAGE(unseen.says("the queue of payments can't be seen: Kafka has no topic `skald.payments`"), unseen.text);
    std::filesystem::remove(list);

    auto const made = run_skald(variables, {"migrate", "--topics", "--service", "payments"});
    CHECK_MESSAGE(made.code == 0, made.text);
    CHECK(made.says("the topics skald.payments are there"));
    service.start();
    CHECK_MESSAGE(wait_until([&] { return service.has_logged(" worker.started "); }), service.log());
    told well;
    CHECK(wait_until([&] {
        well = run_skald(variables, {"doctor", "--json"});
        return well.check("group").find("1 processes consume") != std::string::npos;
    }));
    CHECK_MESSAGE(well.code == 0, well.text);
    CHECK(well.check("broker").starts_with("ok: Kafka answers at "));
    CHECK_MESSAGE(well.check(topic) ==
                      "ok: 2 partitions, 1 replicas, min.insync.replicas 1, nothing is deleted unread; \n",
                  well.text);

    // What is set and what is there.
    auto const other = run_skald(
        over_kafka(payments,
                   {{"SKALD_KAFKA_PARTITIONS", "9"}, {"SKALD_KAFKA_REPLICAS", "3"}, {"SKALD_KAFKA_MIN_INSYNC", "2"}}),
        {"doctor", "--json"});
    for (auto const& part : std::vector<std::string>{
             "has 2 partitions, and SKALD_KAFKA_PARTITIONS is 9; kafka-topics.sh --bootstrap-server " +
                 required("SKALD_KAFKA_BROKERS") + " --alter --topic skald.payments",
             "has 1 replicas, and SKALD_KAFKA_REPLICAS is 3",
             "min.insync.replicas is 1, and SKALD_KAFKA_MIN_INSYNC is 2"})
        CHECK_MESSAGE(other.check(topic).find(part) != std::string::npos, other.check(topic));

    CHECK(service.terminate().code == 0);
    auto const idle = run_skald(variables, {"doctor", "--json"});
    CHECK_MESSAGE(idle.check("group").find("warning: skald.payments: 0 messages wait") == 0, idle.text);
    CHECK(idle.check("group").find("start the service") != std::string::npos);

    // A limit: the usual SKALD_RETENTION_DAYS and a week are 37 days.
    for (int const days : {36, 37}) {
        set_alone(
            required("SKALD_KAFKA_BROKERS"), "skald.payments",
            {{"retention.ms", std::to_string(std::int64_t{days} * 86'400'000)}, {"max.message.bytes", "17825792"}});
        std::string const said{days == 36 ? "deletes records after 36.0 days" : "records are deleted after 37.0 days"};
        std::string text;
        bool const is_said = wait_until([&] {  // not at once of every broker
            text = run_skald(variables, {"doctor", "--json"}).check(topic);
            return text.find(said) != std::string::npos;
        });
        CHECK_MESSAGE(is_said, text);
    }
}

TEST_CASE("another database of the same service is not let in, and doctor and the relay say so")
{
    forget_payments();
    fresh_database first{"payments"}, other{"payments"};
    {
        service_process service{std::string{SKALD_SERVICES_DIR} + "/payment_service", {}, over_kafka(first)};
        service.start();
        CHECK_MESSAGE(wait_until([&] { return service.has_logged(" worker.started "); }), service.log());
        // Once it has its partitions, it has said whose they are.
        CHECK(wait_until([&] {
            return run_skald(over_kafka(first), {"doctor", "--json"}).check("group").find("1 processes") !=
                   std::string::npos;
        }));
        CHECK(service.terminate().code == 0);
    }
    REQUIRE(run_skald(over_kafka(other), {"migrate", "--service", "payments"}).code == 0);
    auto const doctor = run_skald(over_kafka(other), {"doctor", "--json"});
    CHECK_MESSAGE(doctor.check("group").find("belongs to another database") != std::string::npos, doctor.text);
    CHECK_MESSAGE(doctor.check("group").find("--bootstrap-server " + required("SKALD_KAFKA_BROKERS") +
                                             " --group skald.payments --all-topics --reset-offsets --to-current") !=
                      std::string::npos,
                  doctor.text);
    auto const relay = run_skald(over_kafka(other), {"relay", "--until-empty"});
    CHECK(relay.code == 2);
    CHECK_MESSAGE(relay.says("belongs to another database"), relay.text);
    CHECK_MESSAGE(relay.says("correct DATABASE_URL; or, if this database is to have the messages"), relay.text);
}

TEST_CASE("doctor says of a Kafka of which a broker is away that this is so, and not that a setting is wrong")
{
    fresh_database payments{"payments"};
    kafka_in_part const cluster{"payments"};
    auto const variables = over_kafka(payments, {{"SKALD_KAFKA_BROKERS", cluster.brokers()}});
    REQUIRE(run_skald(variables, {"migrate", "--service", "payments"}).code == 0);
    auto const doctor = run_skald(variables, {"doctor", "--json"});
    CHECK(doctor.code == 1);
    auto const broker = doctor.check("broker");
    CHECK_MESSAGE(broker.starts_with("problem: Kafka answers at " + cluster.brokers() + ", but"), doctor.text);
    CHECK_MESSAGE(broker.find("ask again in a minute") != std::string::npos, broker);
    CHECK_MESSAGE(broker.find("SKALD_KAFKA_BROKERS") == std::string::npos, broker);
}

TEST_CASE("doctor asks nothing of the group of a service that the database does not name")
{
    fresh_database payments{"payments"};
    kafka_double guarded{{"skald.payments"}};
    constexpr std::int16_t find_coordinator = 10;
    guarded.deny(find_coordinator, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
    auto const variables = over_kafka(payments, {{"SKALD_KAFKA_BROKERS", guarded.brokers()}});
    auto const doctor = run_skald(variables, {"doctor", "--json"});
    CHECK_MESSAGE(doctor.check("broker").starts_with("ok: Kafka answers at " + guarded.brokers()), doctor.text);
}

TEST_CASE("commands that Kafka has no form of say what to do instead, and a Kafka that is away is said")
{
    fresh_database payments{"payments"};
    auto const duplicate = run_skald(over_kafka(payments), {"duplicate", "--staging", "--service", "payments"});
    CHECK(duplicate.code == 2);
    CHECK_MESSAGE(duplicate.says("kafka-consumer-groups.sh --bootstrap-server " + required("SKALD_KAFKA_BROKERS") +
                                 " --group skald.SERVICE"),
                  duplicate.text);
    auto const topics = run_skald({{"DATABASE_URL", payments.url()}}, {"migrate", "--topics", "--service", "payments"});
    CHECK(topics.code == 2);
    CHECK_MESSAGE(topics.says("--topics is of SKALD_TRANSPORT=kafka"), topics.text);
    auto const declared =
        run_skald(over_kafka(payments), {"declare", "--service", "quotes", "--handler", "n=skald:q1"});
    CHECK_MESSAGE(declared.code == 0, declared.text);
    CHECK_MESSAGE(declared.says("the topics of quotes are there: skald.quotes, skald.q1"), declared.text);
    REQUIRE(run_skald(over_kafka(payments), {"migrate", "--service", "payments"}).code == 0);
    auto const wrong = run_skald(over_kafka(payments), {"declare", "--service", "quotes"});
    CHECK(wrong.code == 2);
    CHECK_MESSAGE(wrong.says("belongs to the service payments: say --service payments"), wrong.text);
    auto const away = run_skald(over_kafka(payments, {{"SKALD_KAFKA_BROKERS", "127.0.0.1:1"}}), {"doctor", "--json"});
    CHECK(away.code == 1);
    CHECK_MESSAGE(away.check("broker").find("problem: can't be examined: no broker answers") == 0, away.text);
    auto without = over_kafka(payments);
    without.erase("SKALD_KAFKA_BROKERS");
    auto const unset = run_skald(without, {"doctor", "--json"});
    CHECK_MESSAGE(unset.check("broker").find("needs SKALD_KAFKA_BROKERS") != std::string::npos, unset.text);
}
