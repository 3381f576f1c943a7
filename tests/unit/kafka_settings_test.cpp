// What a service over Kafka is refused at start.
#include "support/recording_logger.hpp"
#include "worker/transports.hpp"

#include <skald/errors.hpp>
#include <skald/kafka.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace {

std::string refusal(skald::config const& settings, skald::detail::transport_maker const& kafka)
{
    skald::test::recording_logger log;
    try {
        skald::worker_detail::make_transport("payments", "skald/payments", settings, {}, log, kafka);
    }
    catch (skald::configuration_error const& error) {
        return error.what();
    }
    return "it was accepted";
}

bool contains(std::string const& text, std::string const& part)
{
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("over Kafka what can't work is refused at start, with what to do")
{
    skald::config settings;
    settings.transport = "kafka";
    CHECK(contains(refusal(settings, {}), "service.transport(skald::kafka())"));
    CHECK(contains(refusal(settings, skald::kafka()), "needs SKALD_KAFKA_BROKERS"));
    settings.kafka_brokers = "127.0.0.1:1";
    CHECK(refusal(settings, skald::kafka()) == "it was accepted");

    auto const path = std::filesystem::temp_directory_path() / ("skald-kafka-" + std::to_string(::getpid()));
    settings.kafka_properties = path.string();
    CHECK(contains(refusal(settings, skald::kafka()), "can't be read"));
    std::ofstream{path} << "# a comment\n\n security.protocol = ssl\n";
    CHECK(refusal(settings, skald::kafka()) == "it was accepted");
    std::ofstream{path} << "security.protocol: ssl\n";
    CHECK(contains(refusal(settings, skald::kafka()), "line 1 of " + path.string()));
    for (std::string const name : {"group.id", "message.timeout.ms", "delivery.timeout.ms"}) {
        std::ofstream{path} << name << " = 1\n";
        CHECK_MESSAGE(contains(refusal(settings, skald::kafka()), name + " is what Skald relies on"), name);
    }
    // Each for itself is allowed.
    std::ofstream{path} << "max.in.flight = 100\n";
    auto const said = refusal(settings, skald::kafka());
    CHECK_MESSAGE(contains(said, "SKALD_KAFKA_PROPERTIES: "), said);
    CHECK_MESSAGE(contains(said, "max.in.flight"), said);
    std::filesystem::remove(path);

    settings.kafka_properties.clear();
    for (std::string const wrong :
         {"kafka", "kafka://a:9092", "a:99999", "a:0", ":9092", "a:9092,b", "a:9092/x", "a:9092, b:9092"}) {
        settings.kafka_brokers = wrong;
        CHECK_MESSAGE(contains(refusal(settings, skald::kafka()), "is not HOST:PORT"), wrong);
    }
    settings.kafka_brokers = "a:9092,sasl_ssl://app:hunter2@b:9092";
    CHECK(refusal(settings, skald::kafka()) == "SKALD_KAFKA_BROKERS: number 2 is not HOST:PORT");
    for (std::string const right : {"a:9092,b:9092", "[::1]:9092", "SASL_SSL://a:9092"}) {
        settings.kafka_brokers = right;
        CHECK_MESSAGE(refusal(settings, skald::kafka()) == "it was accepted", right);
    }
    settings.peers_file = "/etc/shop/peers";
    CHECK(contains(refusal(settings, skald::kafka()), "SKALD_PEERS_FILE is of SKALD_TRANSPORT=postgres"));
}
