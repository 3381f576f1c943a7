// What every command says when it does nothing: docs/repair.md, "Exit codes".
#include "support/skald_command.hpp"

#include <algorithm>

using namespace skald::test;

namespace {

told skald_at(std::string const& url, std::vector<std::string> words, std::string const& broker = "")
{
    std::map<std::string, std::string> variables{
        {"DATABASE_URL", url}, {"PATH", "/usr/bin:/bin"}, {"SKALD_LOCK_TIMEOUT_MS", "300"}};
    if (!broker.empty()) variables["AMQP_URL"] = broker;
    service_process command{SKALD_TOOL, std::move(words), std::move(variables)};
    auto const end = command.run();
    return {end.code.value_or(-1), command.log()};
}

/// With --json, where all that is printed is one object.
std::string refused(told const& answer)
{
    auto const object = json::parse(answer.text, nullptr, false);
    return object.is_object() ? object.value("refused", "") : "";
}

/// Of the key k.
void start_sagas(fresh_database& db, std::vector<std::string> const& scopes)
{
    for (auto const& scope : scopes)
        db.ask("SELECT skald.start('" + scope +
               "', 'k', 'place-order', 1, '{}', 'forward 1/1 wrap-gift@shipping=pivot', "
               "sha256('x'), 'shipping', 'skald.step', '', '{}')");
}

/// Three deliveries, with the numbers 1 to 3.
void park_three(fresh_database& db)
{
    db.ask("INSERT INTO skald.parked (reason, body, fingerprint) "
           "SELECT 'malformed', '', sha256(n::text::bytea) FROM generate_series(1, 3) n");
}

}  // namespace

TEST_CASE("with --json wrong usage is a JSON object too, with exit code 2, and no text of SQL")
{
    fresh_database db{"orders"};
    REQUIRE(skald_at(db.url(), {"migrate", "--service", "orders"}).code == 0);
    std::string const broken{"a\xff"};
    for (auto const& [part, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
             {"is not UTF-8", {"saga", "show", broken}},
             {"is not UTF-8", {"saga", "list", "--scope", broken}},
             {"is not UTF-8", {"saga", "cancel", "k", "--reason", broken}},
             {"is not UTF-8", {"parked", "list", "--step", broken}},
             {"is not UTF-8", {"outbox", "list", "--to", broken}},
             {"is not UTF-8", {"started", "list", "--key", broken}},
             {"is not UTF-8", {"declare", "--service", broken}},
             {"as x=skald:NAME", {"declare", "--service", "orders", "--handler", "x=skald:"}},
             {"--older-than: Value", {"saga", "list", "--older-than", "999999999999d"}},
             {"--older-than: Value -5", {"saga", "list", "--older-than", "-5s"}},
             {"--older-than: Value -5", {"saga", "cancel", "--older-than", "-5s", "--yes"}},
             {"--older-than", {"saga", "list", "--older-than", "soon"}},
             {"1 to 36500 days", {"purge", "--older-than", "99999999", "--dry-run"}},
             {"--older-than", {"purge", "--older-than", "99999999999999"}},
             {"'-1' is not a whole number from 0 on", {"outbox", "status", "--warn-rows", "-1"}},
             {"is not a whole number from 0 on", {"outbox", "status", "--warn-age", "99999999999999999999"}},
             {"is not a whole number from 0 on", {"parked", "list", "--after", "99999999999999999999"}},
             {"--limit: Value 0", {"parked", "list", "--limit", "0"}},
             {"say --yes too", {"saga", "close", "k", "--as", "completed", "--reason", "x"}},
             {"say --yes too", {"saga", "close", "k", "--as", "completed", "--reason", "x", "--yes=false"}},
             {"`nope` is no command", {"saga", "nope"}},
             {"key is required", {"saga", "show"}}}) {
        auto with_json = words;
        with_json.emplace_back("--json");
        auto const answer = skald_at(db.url(), with_json);
        CHECK_MESSAGE(answer.code == 2, answer.text);
        CHECK_MESSAGE(refused(answer).find(part) != std::string::npos, answer.text);
        CHECK_MESSAGE((answer.text.find("ERROR") == std::string::npos && answer.text.size() < 200), answer.text);
        auto const in_words = skald_at(db.url(), words);
        CHECK_MESSAGE(in_words.code == 2, in_words.text);
        CHECK_MESSAGE(in_words.text.find(part) != std::string::npos, in_words.text);
    }
}

TEST_CASE("with --json what fails is a JSON object too, with exit code 1, and a wrong setting one with 2")
{
    auto const away = skald_at("postgresql://nobody@127.0.0.1:1/nowhere", {"saga", "list", "--json"});
    CHECK(away.code == 1);
    CHECK_MESSAGE(refused(away).find("127.0.0.1") != std::string::npos, away.text);
    fresh_database empty{"empty"};
    auto const nameless = skald_at(empty.url(), {"migrate", "--json"});
    CHECK(nameless.code == 2);
    CHECK_MESSAGE(refused(nameless).find("no service owns the database") != std::string::npos, nameless.text);
}

TEST_CASE("a rehearsal that can't be is a JSON object with --json")
{
    service_process command{
        SKALD_SERVICES_DIR "/payment_service",
        {"--rehearse", "k:no-such-step", "--data", "/nowhere", "--json"},
        {{"DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nowhere"}, {"AMQP_URL", "amqp://nobody"}}};
    command.start();
    CHECK(command.wait().code == 2);
    CHECK_MESSAGE(command.log().find(R"({"refused":")") != std::string::npos, command.log());
}

TEST_CASE("a database that a service's --check-stored can't examine for now is exit code 1, and said to be that")
{
    auto const check = [](std::string const& url) {
        service_process command{SKALD_SERVICES_DIR "/payment_service",
                                {"--check-stored", "--json"},
                                {{"DATABASE_URL", url}, {"PATH", "/usr/bin:/bin"}, {"SKALD_LOCK_TIMEOUT_MS", "300"}}};
        auto const end = command.run();
        return told{end.code.value_or(-1), command.log()};
    };
    auto const away = check("postgresql://nobody@127.0.0.1:1/nowhere");
    CHECK_MESSAGE(away.code == 1, away.text);
    CHECK_MESSAGE(away.text.find(R"({"refused":"the database could not be examined: )") != std::string::npos,
                  away.text);
    CHECK(check("postgresql://nobody@127.0.0.1:none/nowhere").code == 2);
    fresh_database db{"payments"};
    REQUIRE(skald_at(db.url(), {"migrate", "--service", "payments"}).code == 0);
    CHECK(check(db.url()).code == 0);
    pqxx::connection c{db.url()};
    pqxx::work holds{c};
    holds.exec("LOCK skald.outbox");
    auto const locked = check(db.url());
    CHECK_MESSAGE(locked.code == 1, locked.text);
    CHECK_MESSAGE(locked.text.find("could not be examined: another session holds a lock on what it needs; `skald "
                                   "doctor` says which") != std::string::npos,
                  locked.text);
    CHECK_MESSAGE(locked.text.find("LINE") == std::string::npos, locked.text);
}

TEST_CASE("an AMQP_URL that is no URL of a broker is a wrong setting for every command that needs one")
{
    fresh_database db{"orders"};
    REQUIRE(skald_at(db.url(), {"migrate", "--service", "orders"}).code == 0);
    for (auto const& words :
         std::vector<std::vector<std::string>>{{"doctor"},
                                               {"relay"},
                                               {"declare", "--service", "orders"},
                                               {"duplicate", "--service", "orders"},
                                               {"conform", "--service", "orders", "--command", "true"}}) {
        auto const answer = skald_at(db.url(), words, "http://broker");
        CAPTURE(words.front());
        CHECK_MESSAGE(answer.code == 2, answer.text);
        CHECK_MESSAGE(answer.text.find("does not begin with amqp://") != std::string::npos, answer.text);
        CHECK_MESSAGE(answer.text.find("AMQP_URL") != std::string::npos, answer.text);
    }
}

TEST_CASE("of a participant's service that can't be one, conform says what a name is, or whose it is")
{
    for (auto const& [name, why] : {std::pair{"Conf_X", "'Conf_X' is not a service's name: a lower-case letter"},
                                    std::pair{"conform", "which is the sagas' home"}}) {
        auto const answer = skald_at("", {"conform", "--service", name, "--command", "true"});
        CHECK_MESSAGE(answer.code == 2, answer.text);
        CHECK_MESSAGE(answer.text.find(why) != std::string::npos, answer.text);
    }
}

TEST_CASE("of a database that takes no writes, one line says so, and what to do")
{
    fresh_database db{"orders"};
    auto const url = db.url();
    REQUIRE(skald_at(url, {"migrate", "--service", "orders"}).code == 0);
    db.ask("ALTER DATABASE " + url.substr(url.rfind('/') + 1) + " SET default_transaction_read_only = on");
    auto const any = url + "?target_session_attrs=any";
    for (auto const& [at, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
             {url, {"migrate"}},
             {any, {"migrate", "--service", "orders", "--adopt"}},
             {url, {"saga", "cancel", "k"}}}) {
        auto const answer = skald_at(at, words);
        CHECK_MESSAGE(answer.code == 1, answer.text);
        CHECK_MESSAGE(answer.text.find("the database takes no writes: it is a standby, or ") != std::string::npos,
                      answer.text);
        CHECK(std::ranges::count(answer.text, '\n') == 1);
    }
}

TEST_CASE("a command whose connection breaks on the way says that it may have been done, and not that it was refused")
{
    fresh_database db{"orders"};
    REQUIRE(skald_at(db.url(), {"migrate", "--service", "orders"}).code == 0);
    park_three(db);
    db.ask("SELECT skald.enqueue('mail', 'x', 'm', '');"
           "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ "
           "BEGIN IF 'cut' IN (NEW.detail->>'why', NEW.detail->>'reason') THEN PERFORM "
           "pg_terminate_backend(pg_backend_pid()); END IF; "
           "RETURN NULL; END $$;"
           "CREATE TRIGGER cut AFTER INSERT ON skald.audit FOR EACH ROW EXECUTE FUNCTION cut()");
    auto const one = skald_at(db.url(), {"outbox", "drop", "m", "--reason", "cut", "--yes", "--json"});
    CHECK(one.code == 1);
    CHECK_MESSAGE(refused(one).empty(), one.text);
    CHECK_MESSAGE(one.object()["unknown"].get<std::string>().starts_with("it may have been done, since "), one.text);

    REQUIRE(skald_at(db.url(), {"parked", "drop", "1", "--reason", "gone"}).code == 0);
    auto const many = skald_at(db.url(), {"parked", "drop", "1", "2", "3", "--reason", "cut", "--yes", "--json"});
    CHECK(many.code == 1);
    REQUIRE_MESSAGE(many.object().contains("unknown"), many.text);
    CHECK(many.object()["unknown"].at(0)["id"] == 2);
    CHECK(many.object()["refused"].at(0)["id"] == 1);
    CHECK(many.object()["dropped"].empty());
    CHECK(many.object()["not_tried"] == json::parse("[3]"));

    start_sagas(db, {""});
    auto const order =
        skald_at(db.url(), {"saga", "pause", "--status", "running", "--reason", "cut", "--yes", "--json"});
    CHECK(order.code == 1);
    CHECK_MESSAGE(order.object().contains("unknown"), order.text);
    CHECK_MESSAGE(!order.object().contains("failed"), order.text);
}

TEST_CASE("messages are dropped in batches: what was dropped before one that fails stays so, and is told")
{
    fresh_database db{"orders"};
    REQUIRE(skald_at(db.url(), {"migrate", "--service", "orders"}).code == 0);
    std::string act, said;
    SUBCASE("by an error")
    {
        act = "RAISE EXCEPTION 'no more'";
        said = "failed";
    }
    SUBCASE("because its connection breaks")
    {
        act = "PERFORM pg_terminate_backend(pg_backend_pid())";
        said = "unknown";
    }
    db.ask("SELECT skald.enqueue('mail', 'x', 'm' || n, '') FROM generate_series(1, 2500) AS n;"
           "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ "
           "BEGIN IF NEW.detail->>'why' = 'cut' AND (SELECT count(*) FROM skald.audit) >= 1500 THEN " +
           act +
           "; END IF; RETURN NULL; END $$;"
           "CREATE TRIGGER cut AFTER INSERT ON skald.audit FOR EACH ROW EXECUTE FUNCTION cut()");
    auto const cut = skald_at(db.url(), {"outbox", "drop", "--to", "mail", "--reason", "cut", "--yes", "--json"});
    CHECK(cut.code == 1);
    CHECK(cut.object()["dropped"].size() == 1000);
    CHECK_MESSAGE(cut.object().contains(said), cut.text.substr(0, 300));
    CHECK(db.count("skald.outbox") == 1500);

    db.ask("SELECT skald.enqueue('mail', 'x', 'later', '')");
    auto const drop_before = [&db](std::string const& time) {
        return skald_at(db.url(),
                        {"outbox", "drop", "--to", "mail", "--before", time, "--reason", "gone", "--yes", "--json"});
    };
    CHECK(drop_before("yesterday").code == 2);
    auto const rest = drop_before(cut.object()["before"]);
    CHECK(rest.code == 0);
    CHECK(rest.object()["dropped"].size() == 1500);
    CHECK(db.ask("SELECT idempotency_key FROM skald.outbox") == table{{"later"}});
    db.ask("UPDATE skald.outbox SET created_at = created_at + interval '1 h'");  // by a clock that was set back since
    CHECK(skald_at(db.url(), {"outbox", "drop", "later", "--reason", "gone", "--yes"}).code == 0);
    CHECK(db.count("skald.outbox") == 0);
    CHECK(db.ask("SELECT count(DISTINCT xmin::text) FROM skald.audit WHERE verb = 'outbox drop'") == table{{"4"}});
}

TEST_CASE("a dry run of a purge says that the purge would be stopped, as the purge then says that it was")
{
    fresh_database db{"orders"};
    REQUIRE(skald_at(db.url(), {"migrate", "--service", "orders"}).code == 0);
    db.ask("INSERT INTO skald.idempotency (scope, key, step) VALUES ('', 'old', '');"
           "INSERT INTO skald.response (scope, key, status_code, created_at)"
           " VALUES ('', 'old', 404, now() - interval '31 days');"
           "SELECT count(skald.enqueue('x', 'x', 'x', '')) FROM generate_series(1, 10001)");
    std::vector<std::string> const dry_run{"purge", "--dry-run", "--json"}, purge{"purge", "--json"};
    for (bool const is_postponed : {true, false}) {
        auto const would = skald_at(db.url(), dry_run), did = skald_at(db.url(), purge);
        CHECK(would.object()["answers"] == 1);
        CHECK(did.object()["answers"] == (is_postponed ? 0 : 1));
        for (auto const& answer : {would, did}) {
            CHECK_MESSAGE(answer.object()["postponed"] == is_postponed, answer.text);
            CHECK(answer.code == (is_postponed ? 1 : 0));
        }
        db.ask("DELETE FROM skald.outbox");
    }
}

TEST_CASE("an option's value that is empty is empty, and takes no other word")
{
    fresh_database db{"orders"};
    REQUIRE(skald_at(db.url(), {"migrate", "--service", "orders"}).code == 0);
    start_sagas(db, {"", "a"});
    auto const list = skald_at(db.url(), {"saga", "list", "--scope=", "--json"});
    REQUIRE_MESSAGE(list.object().contains("sagas"), list.text);
    CHECK(list.object()["sagas"].size() == 1);
    auto const pause = skald_at(db.url(), {"saga", "pause", "k", "--reason=", "--json"});
    CHECK(pause.code == 2);
    CHECK_MESSAGE(refused(pause).find("is empty") != std::string::npos, pause.text);
    CHECK(db.count("skald.control") == 0);
    CHECK(skald_at(db.url(), {"saga", "pause", "--reason=because", "--", "--none="}).code == 1);
}

TEST_CASE("a saga that another transaction holds is said to be held")
{
    fresh_database db{"orders"};
    REQUIRE(skald_at(db.url(), {"migrate", "--service", "orders"}).code == 0);
    start_sagas(db, {""});
    pqxx::connection c{db.url()};
    pqxx::work holds{c};
    holds.exec("SELECT FROM skald.saga FOR UPDATE");
    auto const answer = skald_at(db.url(), {"saga", "pause", "k", "--json"});
    CHECK(answer.code == 1);
    CHECK_MESSAGE(refused(answer).starts_with("rolled back: another session holds a lock"), answer.text);
}

TEST_CASE("of several parked deliveries one that another transaction holds is refused, and the others are dropped")
{
    fresh_database db{"orders"};
    REQUIRE(skald_at(db.url(), {"migrate", "--service", "orders"}).code == 0);
    park_three(db);
    pqxx::connection c{db.url()};
    pqxx::work holds{c};
    holds.exec("SELECT FROM skald.parked WHERE id = 2 FOR UPDATE");
    auto const answer = skald_at(db.url(), {"parked", "drop", "1", "2", "3", "--reason", "gone", "--yes", "--json"});
    CHECK(answer.code == 1);
    REQUIRE_MESSAGE(answer.object().contains("dropped"), answer.text);
    CHECK(answer.object()["dropped"] == json::parse("[1, 3]"));
    REQUIRE(answer.object()["refused"].size() == 1);
    CHECK(answer.object()["refused"].at(0)["id"] == 2);
    CHECK(db.count("skald.parked") == 1);
}

TEST_CASE("a migration that is done is told although what comes after it fails")
{
    fresh_database db{"orders"};
    for (auto const& words : std::vector<std::vector<std::string>>{{}, {"--adopt"}}) {
        std::vector<std::string> all{"migrate", "--service", "orders", "--grant", "nobody_of_that_name", "--json"};
        all.insert(all.end(), words.begin(), words.end());
        auto const answer = skald_at(db.url(), all);
        CHECK(answer.code == 2);
        CHECK_MESSAGE(refused(answer).empty(), answer.text);
        CHECK_MESSAGE(answer.object().value("failed", "").starts_with("there is no role nobody_of"), answer.text);
        CHECK(answer.object()["applied"].empty() == !words.empty());
        CHECK(answer.object()["adopted"] == !words.empty());
        CHECK(answer.object()["granted"] == "");
    }
}
