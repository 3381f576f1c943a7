// `skald saga list --where`, and orders for many sagas, on the command line.
#include "support/shop.hpp"

using namespace skald::test;

namespace {

struct tool_answer
{
    int code{};
    std::string text;
    json object() const { return json::parse(text); }
    bool has(std::string const& part) const { return text.find(part) != std::string::npos; }
};

// A home with 12 sagas of bob and one of ann, none of which a worker runs.
class home_of_bob
{
public:
    home_of_bob()
    {
        at({"migrate", "--service", "orders"});
        db.ask("INSERT INTO skald.saga (scope, key, definition, data, itinerary, created_at) "
               "SELECT '', 'o-' || n, 'place-order', '{}', 'forward 1/1 create-order@orders=compensatable', "
               "now() - n * interval '1 minute' FROM generate_series(1, 13) AS n");
        db.ask("SELECT skald.add_attributes(scope, key, jsonb_build_object('customer', "
               "CASE key WHEN 'o-7' THEN 'ann' ELSE 'bob' END, 'city', 'São Paulo = home')) FROM skald.saga");
    }

    tool_answer at(std::vector<std::string> words)
    {
        service_process tool{SKALD_TOOL, std::move(words), {{"DATABASE_URL", db.url()}, {"PATH", "/usr/bin:/bin"}}};
        auto const end = tool.run();
        return {end.code.value_or(-1), tool.log()};
    }

    fresh_database db{"finding"};
};

}  // namespace

TEST_CASE("skald saga list --where finds sagas by their attributes, page by page")
{
    home_of_bob h;
    auto const ann = h.at({"saga", "list", "--where", "customer=ann", "--where", "city=São Paulo = home", "--json"});
    REQUIRE_MESSAGE(ann.code == 0, ann.text);
    REQUIRE(ann.object()["sagas"].size() == 1);
    CHECK(ann.object()["sagas"][0]["key"] == "o-7");
    CHECK(ann.object()["sagas"][0]["attributes"]["customer"] == "ann");
    auto const first = h.at({"saga", "list", "--where", "customer=bob", "--limit", "10", "--json"}).object();
    CHECK(first["sagas"].size() == 10);
    CHECK(first["sagas"][0]["key"] == "o-1");
    auto const second =
        h.at({"saga", "list", "--where", "customer=bob", "--limit", "10", "--after", first["next"], "--json"}).object();
    CHECK(second["sagas"].size() == 2);
    CHECK(second["next"].is_null());

    auto const unknown = h.at({"saga", "list", "--where", "costumer=bob"});
    CHECK(unknown.code == 2);
    CHECK(unknown.has("no saga here has the attribute costumer; there are: city, customer"));
    auto const malformed = h.at({"saga", "list", "--where", "customer"});
    CHECK(malformed.code == 2);
    CHECK(malformed.has("'customer' is not NAME=VALUE"));
}

TEST_CASE("an order for many is looked at first, done with --yes, and one entry in the audit")
{
    home_of_bob h;
    auto const bob = std::vector<std::string>{"saga", "cancel", "--where", "customer=bob", "--older-than", "150s"};
    auto const with = [&](std::vector<std::string> more) {
        auto all = bob;
        all.insert(all.end(), more.begin(), more.end());
        return h.at(all);
    };
    auto const careless = with({});
    CHECK(careless.code == 2);
    CHECK(careless.has("--dry-run"));
    auto const dry = with({"--dry-run"});
    CHECK(dry.code == 0);
    CHECK(dry.has("cancel would be given for 10 sagas; the oldest of them:"));
    CHECK(dry.has("o-13"));
    CHECK(h.db.count("skald.audit") == 0);
    auto const done = with({"--yes", "--batch", "3", "--reason", "the warehouse burned", "--by", "eve", "--json"});
    CHECK_MESSAGE(done.code == 0, done.text);
    CHECK(done.object()["done"] == 10);
    CHECK(done.object()["ended"] == true);
    CHECK(h.db.count("skald.control WHERE action = 'cancel' AND reason = 'the warehouse burned'") == 10);
    CHECK(h.db.ask("SELECT actor LIKE 'eve as %', detail->>'done', detail->>'ended' FROM skald.audit "
                   "WHERE verb = 'sagas cancel'") == table{{"t", "10", "true"}});
    CHECK(with({"--yes"}).has("cancel: 0 of 0 sagas"));
}

TEST_CASE("what an order is for is said in one way, and what has ended takes none")
{
    home_of_bob h;
    for (auto const& words : std::vector<std::vector<std::string>>{{"saga", "pause"},
                                                                   {"saga", "pause", "--yes"},
                                                                   {"saga", "pause", "o-1", "--where", "customer=bob"},
                                                                   {"saga", "pause", "o-1", "--dry-run"},
                                                                   {"saga", "pause", "--status", "completed", "--yes"},
                                                                   {"saga", "pause", "--status", "lost", "--yes"}}) {
        auto const answer = h.at(words);
        CHECK_MESSAGE(answer.code == 2, answer.text);
    }
    CHECK(h.db.count("skald.audit") == 0);
}

TEST_CASE("an order for many that is stopped while it waits for its first look ends with words, and not by the signal")
{
    home_of_bob h;
    pqxx::connection c{h.db.url()};
    pqxx::work holds{c};
    holds.exec("LOCK skald.saga");
    for (int const number : {SIGINT, SIGTERM}) {
        service_process tool{
            SKALD_TOOL,
            {"saga", "pause", "--status", "running", "--yes", "--reason", "r"},
            {{"DATABASE_URL", h.db.url()}, {"PATH", "/usr/bin:/bin"}, {"SKALD_LOCK_TIMEOUT_MS", "2000"}}};
        tool.start();
        REQUIRE(wait_until([&] { return h.db.has_one_waiting(); }));
        tool.kill(number);
        auto const end = tool.wait();
        CHECK_MESSAGE(end.code == 1, skald::rig::in_words(end));
        CHECK_MESSAGE(tool.has_logged("rolled back: another session holds a lock on what it needs"), tool.log());
    }
    holds.abort();
    CHECK(h.db.count("skald.control") == 0);
}
