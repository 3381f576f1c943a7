// Sagas under way while their services are replaced by other versions of themselves: two processes of each of two
// services, replaced one at a time in random order, and killed between. docs/change.md
#include "support/skald_command.hpp"
#include "unit/seeded.hpp"

#include <cstdio>
#include <fstream>
#include <set>

using namespace skald::test;
using namespace std::chrono_literals;

namespace {

struct plan_text
{
    std::string itinerary, steps;
};

plan_text plan_of(int version)
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

    // With scripts/two_builds.sh, half of the processes are an older build's, on the schema that this build makes.
    static constexpr char const* older_build = "SKALD_TEST_OLDER_RENTAL_SERVICE";
    bool is_of_older_build(place const& at) const
    {
        return std::getenv(older_build) != nullptr && &at - places.data() >= 2;
    }

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

    void open(int version)
    {
        for (auto& one : places) begin(one, version);
        for (auto& one : places) wait_for(one);
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

// Replaces those places by processes of that version, in random order, with sagas of `starts` and kills between.
void replace(rental_shop& shop, seeded& random, std::vector<std::size_t> order, int version, int starts)
{
    for (auto left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random.number(0, left - 1)]);
    for (auto const n : order) {
        auto& at = shop.places[n];
        shop.start_some(starts, 15);
        if (random.coin()) at.process->kill();
        else CHECK(at.process->terminate().code == 0);
        shop.begin(at, version);
        auto& victim = shop.places[random.number(0, shop.places.size() - 1)];
        shop.start_some(starts, 15);
        victim.process->kill();
        shop.begin(victim, victim.version);
        shop.wait_for(victim);
        if (&victim != &at) shop.wait_for(at);
    }
}

}  // namespace

TEST_CASE("a rolling deploy in any order parks nothing and loses nothing: from 1 to 2, to 3, and back to 2")
{
    std::vector<std::size_t> const all{0, 1, 2, 3};
    seeded random{static_cast<std::uint_fast32_t>(std::random_device{}())};
    rental_shop shop;
    shop.open(1);
    shop.start_some(1, 20);
    for (int const version : {2, 3}) {
        // Its entry is the first of the new version: sagas begin with it before any process knows it.
        replace(shop, random, all, version, version);
        CHECK(shop.parked() == 0);
    }
    // One of each goes back. What began with version 3 ends with the others; then they follow.
    replace(shop, random, {0, 1}, 2, 2);
    CHECK(wait_until([&] { return shop.under_way(3) == 0; }, 60s));
    replace(shop, random, {2, 3}, 2, 2);
    CHECK_MESSAGE(wait_until([&] { return shop.under_way() == 0; }, 60s), shop.versions().dump(2));
    CHECK(shop.parked() == 0);
    shop.check_all();
    auto const versions = shop.versions();
    REQUIRE(versions.size() == 3);
    CHECK(versions[0]["version"] == 3);
    CHECK(versions[2]["may_be_removed"] == true);
    for (auto const& one : shop.versions_at(shop.bank)) {  // where none was started
        CHECK(one["is_home"] == false);
        CHECK(one["may_be_removed"] == false);
    }
}

TEST_CASE("a process does not start without a step that sagas under way still need, and says which, and what to do")
{
    rental_shop shop;
    auto& bank = shop.places[1];
    auto& stock = shop.places[0];
    shop.begin(stock, 2);
    shop.begin(bank, 2);
    shop.wait_for(stock);
    shop.wait_for(bank);
    CHECK(stock.process->terminate().code == 0);
    CHECK(bank.process->terminate().code == 0);
    shop.start(1, "old", "ann");
    // As if the plan of version 1 had had a step of the home that no build has any more.
    shop.stock.ask(
        "UPDATE skald.saga SET itinerary = 'forward 1/4 reserve@stock=compensatable count@stock=compensatable "
        "charge@bank=pivot hand-over@stock=retriable'");
    auto& refused = shop.begin(stock, 2);
    CHECK(refused.wait().code == 2);
    CHECK_MESSAGE(refused.has_logged("rent version 1: step count is needed by 1 saga under way, one of them old"),
                  refused.log());
    CHECK(refused.has_logged(".retired(count)"));
    auto& warned = shop.begin(stock, 2, {{"SKALD_START_CHECK", "warn"}});
    shop.wait_for(stock);
    CHECK(warned.has_logged("stored.step_missing"));
    CHECK(warned.terminate().code == 0);
    // An older process must start in the middle of a deployment: what is newer than it is no reason to stay away.
    shop.stock.ask("UPDATE skald.saga SET version = 7");
    shop.begin(stock, 2);
    shop.wait_for(stock);
    CHECK(stock.process->has_logged("stored.step_missing"));
}

TEST_CASE(
    "data that the steps of a build can't read is said before it parks anything, and by the service's own command")
{
    rental_shop shop;
    auto& stock = shop.places[0];
    shop.begin(stock, 3);
    shop.wait_for(stock);
    CHECK(stock.process->terminate().code == 0);
    shop.start(3, "good", "ann");
    shop.start(3, "bad", "ann");
    shop.stock.ask("UPDATE skald.saga SET data = data - 'buyer' WHERE key = 'bad'");
    CHECK(shop.begin(stock, 3, {{"SKALD_START_CHECK", "refuse"}}).wait().code == 2);
    auto const said = "rent version 3: step reserve can't read the data of 1 saga under way, and would park them as "
                      "malformed; of bad it says";
    CHECK_MESSAGE(stock.process->has_logged(said), stock.process->log());

    auto const versions_of_doctor = [&] { return run_skald(shop.stock, {"doctor", "--json"}, false).object(); };
    CHECK(level(versions_of_doctor(), "versions") == "ok");  // nothing that has started would park it
    shop.begin(stock, 3);
    shop.wait_for(stock);
    CHECK(level(versions_of_doctor(), "versions") == "warning");
    CHECK(run_skald(shop.stock, {"doctor"}, false).text.find("can't read the data of 1 saga under way") !=
          std::string::npos);
    CHECK(stock.process->terminate().code == 0);
    shop.stock.ask("UPDATE skald.saga SET version = 9 WHERE key = 'good'");
    CHECK(run_skald(shop.stock, {"doctor"}, false).text.find("rent version 9 has 1 sagas under way") !=
          std::string::npos);
    shop.stock.ask("UPDATE skald.saga SET version = 3");

    service_process check{SKALD_RENTAL_SERVICE,
                          {"--service", "stock", "--version", "3", "--check-stored"},
                          {{"DATABASE_URL", shop.stock.url()}, {"PATH", "/usr/bin:/bin"}}};
    CHECK(check.run().code == 1);
    CHECK_MESSAGE(check.has_logged(said), check.log());
    shop.stock.ask("UPDATE skald.saga SET data = data || '{\"buyer\": \"ann\"}'");
    CHECK(check.run().code == 0);
    CHECK_MESSAGE(check.has_logged("this process can run all of it"), check.log());
}

TEST_CASE("the check at start looks at both ends of what is under way and at some of each version, the command at all")
{
    rental_shop shop;
    auto& stock = shop.places[0];
    shop.begin(stock, 3);
    shop.wait_for(stock);
    CHECK(stock.process->terminate().code == 0);
    auto const insert = [&](std::string const& name, int version, int minute, int count, std::string const& more,
                            std::string const& data) {
        shop.stock.ask(
            "INSERT INTO skald.saga (scope, key, definition, version, data, itinerary, created_at) SELECT '', '" +
            name + "' || n, 'rent', " + std::to_string(version) + ", '" + data + "', 'forward 1/" +
            (more.empty() ? "2" : "3") + " reserve@stock=compensatable " + more +
            "charge@bank=pivot', timestamptz '2026-01-01' + interval '1 min' * " + std::to_string(minute) +
            " FROM generate_series(1, " + std::to_string(count) + ") n");
    };
    std::string const good = R"({"id": "k", "buyer": "ann", "trail": "", "note": null})";
    insert("early", 3, 0, 15'000, "", good);
    insert("odd", 2, 1, 1, "", R"({"id": "k", "customer": 7, "trail": ""})");
    insert("amid", 3, 2, 30'000, "", good);
    insert("hidden", 3, 3, 1, "count@stock=compensatable ", good);
    insert("late", 3, 4, 25'000, "", good);
    auto& looks = shop.begin(stock, 3);
    shop.wait_for(stock);
    CHECK_MESSAGE(looks.has_logged("stored.partly_checked"), looks.log());
    CHECK_MESSAGE(looks.has_logged("rent version 2: step reserve can't read the data of at least 1 saga under way"),
                  looks.log());
    CHECK(looks.has_logged("/customer is a number and must be a string"));
    CHECK_FALSE(looks.has_logged("stored.step_missing"));  // it is far from both ends
    CHECK(looks.terminate().code == 0);

    service_process all{SKALD_RENTAL_SERVICE,
                        {"--service", "stock", "--version", "3", "--check-stored"},
                        {{"DATABASE_URL", shop.stock.url()}, {"PATH", "/usr/bin:/bin"}}};
    CHECK(all.run().code == 1);
    CHECK_MESSAGE(all.has_logged("rent version 3: step count is needed by 1 saga under way"), all.log());
    CHECK(all.has_logged("70002 sagas and messages under way were read"));
}

TEST_CASE("a process writes the first delivery of each step down, as it came, if it is to")
{
    rental_shop shop;
    auto const file = shop.stock.name() + ".jsonl";
    std::remove(file.c_str());
    for (auto& one : {0, 1}) {
        shop.begin(shop.places[one], 2, {{"SKALD_RECORD_DELIVERIES", file}});
        shop.wait_for(shop.places[one]);
    }
    shop.start_some(2, 20);  // two of them are poor, and go back
    CHECK(wait_until([&] { return shop.under_way() == 0; }));
    std::ifstream in{file};
    std::multiset<std::string> seen;
    for (std::string line; std::getline(in, line);) {
        auto const one = json::parse(line);
        auto const data = json::parse(one["body"].get<std::string>());
        CHECK(one["format"] == "skald.delivery/1");
        CHECK(one["headers"]["x-saga-version"] == "2");
        CHECK(data["unknown"] == 1.5);
        auto const id = one["message_id"].get<std::string>();
        seen.insert(id.substr(id.find(':') + 1));
    }
    std::remove(file.c_str());
    CHECK(seen == std::multiset<std::string>{"charge", "hand-over", "insure", "insure.compensate", "reserve",
                                             "reserve.compensate"});
}

TEST_CASE("a schema of a newer Skald serves an older process, and a newer process waits for one of an older")
{
    rental_shop shop;
    auto& stock = shop.places[0];
    auto& bank = shop.places[1];
    for (auto* one : {&stock, &bank}) {
        shop.begin(*one, 1);
        shop.wait_for(*one);
        CHECK(one->process->terminate().code == 0);
    }
    // What a newer Skald adds in the one, and what this one has added last taken from the other.
    shop.stock.ask("CREATE TABLE skald.of_the_future (id int); ALTER TABLE skald.saga ADD COLUMN of_the_future text;"
                   "INSERT INTO skald.migration VALUES ('skald', '9999_future', '\\x00')");
    shop.bank.ask("DROP TABLE skald.hosted_version; DELETE FROM skald.migration WHERE name = '0018_versions'");
    shop.begin(stock, 1);
    shop.wait_for(stock);
    shop.begin(bank, 1, {{"SKALD_MIGRATE", "off"}});
    CHECK(wait_until([&] { return bank.process->has_logged("of an older Skald: it lacks 0018_versions; run"); }));
    shop.start_some(1, 20);
    CHECK(level(run_skald(shop.bank, {"doctor", "--json"}, false).object(), "migrations") == "problem");
    auto const relay = run_skald(shop.bank, {"relay", "--until-empty"});
    CHECK_MESSAGE(relay.text.find("of an older Skald: it lacks 0018_versions; run") != std::string::npos, relay.text);
    CHECK_FALSE(bank.process->has_logged(" worker.started "));
    CHECK(run_skald(shop.bank, {"migrate"}).code == 0);
    shop.wait_for(bank);
    CHECK(wait_until([&] { return shop.under_way() == 0; }));
    CHECK(shop.parked() == 0);
    shop.check_all();
    // With another text than this build's, nothing may be assumed.
    shop.bank.ask("UPDATE skald.migration SET checksum = '\\x00' WHERE name = '0018_versions'");
    CHECK(shop.begin(bank, 1, {{"SKALD_MIGRATE", "off"}}).wait().code == 2);
    CHECK(bank.process->has_logged("0018_versions was applied with another text"));
}
