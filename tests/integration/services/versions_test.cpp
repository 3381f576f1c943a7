// Sagas under way while their services are replaced by other versions of themselves: two processes of each of two
// services, replaced one at a time in random order, and killed between. docs/change.md
#include "support/rental_shop.hpp"
#include "unit/seeded.hpp"

#include <cstdio>
#include <fstream>
#include <set>

using namespace skald::test;
using namespace std::chrono_literals;

namespace {

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
    shop.begin_and_wait({0, 1, 2, 3}, 1);
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
    shop.begin_and_wait({0, 1}, 2);
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
    shop.stock.ask("UPDATE skald.saga SET status = 'completed', finished_at = now()");
    service_process idle{SKALD_RENTAL_SERVICE,
                         {"--service", "stock", "--version", "3", "--check-stored"},
                         {{"DATABASE_URL", shop.stock.url()}, {"PATH", "/usr/bin:/bin"}}};
    CHECK(idle.run().code == 0);
    CHECK_MESSAGE(idle.has_logged("nothing was read: the database of stock, "), idle.log());
    CHECK_FALSE(idle.has_logged("can run all of it"));
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

TEST_CASE("a newer build waits at the schema of the version before, whose processes go on, also when it is migrated" *
          doctest::skip(!there_is_an_older_build()))
{
    rental_shop shop;
    shop.begin_and_wait({2, 3}, 1);  // of the version before: they make the schema
    auto const lacks = shop.stock.value("SELECT count(*) FROM skald.migration WHERE owner = 'skald'");
    for (auto const n : {0U, 1U}) shop.begin(shop.places[n], 1, {{"SKALD_MIGRATE", "off"}});
    for (auto const n : {0U, 1U})
        CHECK(wait_until([&] { return shop.places[n].process->has_logged("of an older Skald: it lacks 00"); }));
    shop.start_some(1, 50);
    CHECK(wait_until([&] { return shop.under_way() == 0; }, 60s));
    for (auto const n : {0U, 1U}) CHECK_FALSE(shop.places[n].process->has_logged(" worker.started "));

    shop.start_some(1, 50);
    CHECK(run_skald(shop.stock, {"migrate"}).code == 0);
    shop.start_some(1, 50);
    CHECK(run_skald(shop.bank, {"migrate"}).code == 0);
    CHECK(shop.stock.value("SELECT count(*) FROM skald.migration WHERE owner = 'skald'") > lacks);
    for (auto const n : {0U, 1U}) shop.wait_for(shop.places[n]);
    for (auto const n : {2U, 3U}) {  // and it starts on the newer schema
        shop.start_some(1, 50);
        shop.places[n].process->kill();
        shop.begin_and_wait({n}, 1);
    }
    for (auto const n : {0U, 1U}) CHECK(shop.places[n].process->terminate().code == 0);
    shop.start_some(1, 50);  // for the version before alone
    CHECK(wait_until([&] { return shop.under_way() == 0; }, 60s));
    CHECK(shop.parked() == 0);
    shop.check_all();
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
