// The rental saga of rentals.hpp on two processes of each of its two services, which are replaced and killed.
#pragma once

#include "support/skald_command.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace skald::test {

// With scripts/two_builds.sh, half of the processes are an older build's, on the schema that this build makes.
inline constexpr char const* older_build = "SKALD_TEST_OLDER_RENTAL_SERVICE";

inline bool there_is_an_older_build()
{
    return std::getenv(older_build) != nullptr;
}

struct plan_text
{
    std::string itinerary, steps;
};

inline plan_text plan_of(int version)
{
    auto const insured = version == 2;
    return {insured ? "forward 1/4 reserve@stock=compensatable insure@bank=compensatable charge@bank=pivot "
                      "hand-over@stock=retriable"
                    : "forward 1/3 reserve@stock=compensatable charge@bank=pivot hand-over@stock=retriable",
            insured ? "reserve insure charge" : "reserve charge"};
}

struct rental_shop
{
    struct place
    {
        std::string service;
        fresh_database& db;
        int version{1};
        std::unique_ptr<service_process> process{};
    };

    rental_shop()
    {
        amqp_hands hands{broker()};
        for (std::string const service : {"stock", "bank"})
            for (auto const* end : {"", ".parked", ".database"}) hands.delete_queue("skald." + service + end);
        hands.declare_exchange("skald");
        for (int n = 0; n < 2; ++n) {
            places.push_back({"stock", stock});
            places.push_back({"bank", bank});
        }
    }
    ~rental_shop()
    {
        if (std::uncaught_exceptions() > 0)
            for (auto const& one : places)
                if (one.process) std::fprintf(stderr, "%s\n%s\n", one.service.c_str(), one.process->log().c_str());
    }

    bool is_of_older_build(place const& at) const { return there_is_an_older_build() && &at - places.data() >= 2; }

    service_process& begin(place& at, int version, environment const& more = {})
    {
        environment variables{{"DATABASE_URL", at.db.url()}, {"AMQP_URL", broker().url()}, {"PATH", "/usr/bin:/bin"}};
        variables.insert(more.begin(), more.end());
        at.version = version;
        at.process = std::make_unique<service_process>(
            is_of_older_build(at) ? std::getenv(older_build) : SKALD_RENTAL_SERVICE,
            std::vector<std::string>{"--service", at.service, "--version", std::to_string(version)}, variables);
        at.process->start();
        return *at.process;
    }

    void wait_for(place& at)
    {
        REQUIRE_MESSAGE(
            wait_until([&] { return at.process->has_logged(" worker.started ") || !at.process->is_running(); }),
            at.process->log());
        REQUIRE_MESSAGE(at.process->is_running(), at.process->log());
    }

    void begin_and_wait(std::vector<std::size_t> const& which, int version)
    {
        for (auto const n : which) begin(places[n], version);
        for (auto const n : which) wait_for(places[n]);
    }

    /// As an entry of that version does, in the home's database.
    void start(int version, std::string const& key, std::string const& customer)
    {
        auto const who = version == 3 ? "buyer" : "customer";
        json data{{"id", key}, {who, customer}, {"trail", ""}, {"unknown", 1.5}};
        if (version > 1) data["note"] = "note of " + key;
        auto const text = data.dump();
        auto const plan = plan_of(version).itinerary;
        CHECK(stock.value("SELECT skald.start('', '" + key + "', 'rent', " + std::to_string(version) + ", '" + text +
                          "', '" + plan + "', sha256('" + text + "'), 'stock', 'reserve', convert_to('" + text +
                          "', 'UTF8'), '" +
                          json{{"x-idempotency-key", key + ":reserve"},
                               {"x-saga-scope", ""},
                               {"x-saga", "rent"},
                               {"x-saga-version", std::to_string(version)},
                               {"x-saga-itinerary", plan}}
                              .dump() +
                          "')") == "fresh");
        started.push_back({key, customer, version});
    }

    void start_some(int version, int count)
    {
        for (int n = 0; n < count; ++n)
            start(version, 'k' + std::to_string(started.size()), started.size() % 10 == 9 ? "poor" : "ann");
    }

    long parked() { return stock.count("skald.parked") + bank.count("skald.parked"); }
    long under_way() { return stock.count("skald.saga WHERE finished_at IS NULL"); }

    json versions() { return versions_at(stock); }
    json versions_at(fresh_database const& db)
    {
        return run_skald(db, {"saga", "versions", "--json"}, false).object()["versions"];
    }
    long under_way(int version)
    {
        for (auto const& one : versions())
            if (one["version"] == version) return one["sagas"];
        return 0;
    }

    /// Each began with its plan, and ended with it and with all that it had.
    void check_all()
    {
        for (auto const& [key, customer, version] : started) {
            CAPTURE(key);
            CAPTURE(version);
            bool const poor = customer == "poor";
            CHECK(stock.value("SELECT status FROM skald.saga WHERE key = '" + key + "'") ==
                  (poor ? "compensated" : "completed"));
            auto const note = version > 1 ? "note of " + key : "";
            auto const steps = plan_of(version).steps;
            auto const did = [&](fresh_database& db, std::string const& step) {
                return db.ask("SELECT who, trail, note FROM did WHERE key = '" + key + "' AND step = '" + step + "'");
            };
            auto const once = [&](std::string const& trail) { return table{{customer, trail, note}}; };
            CHECK(did(stock, "reserve") == once(""));
            CHECK(did(bank, "insure") == (version == 2 ? once("reserve") : table{}));
            CHECK(did(stock, "hand-over") == (poor ? table{} : once(steps)));
            CHECK(did(bank, "charge") == (poor ? table{} : once(version == 2 ? "reserve insure" : "reserve")));
            CHECK(did(stock, "undo-reserve").size() == (poor ? 1 : 0));
            CHECK(did(bank, "undo-insure").size() == (poor && version == 2 ? 1 : 0));
        }
    }

    struct saga
    {
        std::string key, customer;
        int version{};
    };

    fresh_database stock{"stock"}, bank{"bank"};
    std::vector<place> places;  // two of each
    std::vector<saga> started;
};

}  // namespace skald::test
