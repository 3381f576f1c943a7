// `skald audit` as a timer runs it: what it prints, and how it exits.
#include "rig/process.hpp"
#include "support/stepped_shop.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace skald;

namespace {

struct told
{
    int code{};
    std::string text;
    nlohmann::json object() const { return nlohmann::json::parse(text.substr(text.find('{'))); }
    bool says(std::string const& part) const { return text.find(part) != std::string::npos; }
};

class command_line : public test::stepped_shop
{
public:
    command_line() : folder_{std::filesystem::temp_directory_path() / ("skald-audit-" + std::to_string(::getpid()))}
    {
        std::filesystem::create_directories(folder_);
        std::ofstream file{databases()};
        file << "# all of them\n";
        for (auto const* name : {"orders", "payments", "shipping"}) file << name << '=' << at(name).db.url() << '\n';
        order("1");
        order("2", 1000);
        run();
        for (auto const* name : {"orders", "payments", "shipping"})
            at(name).db.run("UPDATE skald.idempotency SET created_at = created_at - interval '1 hour', updated_at = "
                            "updated_at - interval '1 hour'");
        at("orders").db.run("UPDATE skald.saga SET updated_at = updated_at - interval '1 hour'");
    }
    ~command_line() { std::filesystem::remove_all(folder_); }

    std::string transport;

    std::string databases() const { return folder_ / "databases"; }

    told audit(std::vector<std::string> words, std::string const& url_of = "payments")
    {
        words.insert(words.begin(), "audit");
        rig::process command{
            {.program = SKALD_TOOL,
             .arguments = words,
             .variables = {{"DATABASE_URL", at(url_of).db.url()}, {"PATH", std::getenv("PATH")}, {"LIST", list_}}}};
        if (!transport.empty()) command.set_variable("SKALD_TRANSPORT", transport);
        auto const end = command.run();
        return {end.code.value_or(-1), command.log()};
    }

    /// Its output goes to a disk that is full.
    told audit_onto_full_disk(std::vector<std::string> words)
    {
        words.insert(words.begin(), {"-c", "exec \"$0\" audit \"$@\" > /dev/full", SKALD_TOOL});
        rig::process command{{.program = "/bin/sh",
                              .arguments = words,
                              .variables = {{"DATABASE_URL", at("payments").db.url()}, {"PATH", std::getenv("PATH")}}}};
        auto const end = command.run();
        return {end.code.value_or(-1), command.log()};
    }

    told compare(std::string list, std::vector<std::string> more = {})
    {
        list_ = std::move(list);
        std::vector<std::string> words{"--service",      "payments",  "--step",
                                       "charge-payment", "--against", "printf '%s\\n' \"$LIST\""};
        words.insert(words.end(), more.begin(), more.end());
        return audit(words);
    }

private:
    std::filesystem::path folder_;
    std::string list_;
};

constexpr auto both = "{\"key\":\"1:charge-payment\"}\n{\"key\":\"2:charge-payment\"}";

}  // namespace

TEST_CASE("an audit exits with 0 if nothing is off, and with 1 if anything is, and says what")
{
    command_line c;
    auto const well = c.compare(both, {"--json"});
    CHECK(well.code == 0);
    CHECK(well.object()["total"] == 0);
    CHECK(well.object()["theirs"] == 2);

    auto const off = c.compare("{\"key\":\"3:charge-payment\"}", {"--json"});
    CHECK(off.code == 1);
    CHECK(off.object()["counts"] == nlohmann::json{{"missing_here", 1}, {"missing_there", 1}});
    CHECK(off.object()["findings"][0]["command"] == "skald saga show 1");
    auto const table = c.compare("{\"key\":\"3:charge-payment\"}");
    CHECK(table.code == 1);
    CHECK(table.says("missing_there"));
    CHECK(table.says("skald saga show 1"));
    CHECK(table.says("2 findings; 1 there and 2 here compared, from "));
    auto const first = c.compare("{\"key\":\"3:charge-payment\"}", {"--rows", "1"});
    CHECK(first.says("1 missing_here\n1 missing_there\nthese are the first 1: --rows shows more\n2 findings"));
}

TEST_CASE("where nothing can be said, that is one object too, and it exits with 2 if that can't be written")
{
    command_line c;
    std::ofstream{c.databases()} << "kiosk=postgresql://127.0.0.1:1/none\n";
    auto const away = c.audit({"--databases", c.databases(), "--json"});
    CHECK(away.code == 2);
    CHECK(away.object()["refused"].get<std::string>().starts_with("nothing can be said"));
    std::vector<std::string> const words{"--service",     "payments",  "--step",
                                         "nothing-of-it", "--against", "echo '{\"end\":0}'"};
    REQUIRE(c.audit(words).code == 0);
    auto const full = c.audit_onto_full_disk(words);
    CHECK(full.code == 2);
    CHECK(full.says("is the disk full"));
}

TEST_CASE("a side that can't be asked is an error, and not a side that has nothing")
{
    command_line c;
    for (std::string const list : {"", "oops", "{\"key\":\"1:charge-payment\"}\n{\"end\":2}"}) {
        CAPTURE(list);
        auto const refused = c.compare(list);
        CHECK(refused.code == 2);
        CHECK(refused.says("nothing was compared"));
        CHECK_FALSE(refused.says("missing_"));
    }
    auto const failed = c.audit({"--service", "payments", "--step", "charge-payment", "--against", "exit 7"});
    CHECK(failed.code == 2);
    CHECK(failed.says("exited with 7"));
    auto const left_open = c.audit({"--service", "payments", "--step", "charge-payment", "--against",
                                    "sleep 60 & printf '{\"key\":\"1:charge-payment\"}\n'"});
    CHECK(left_open.code == 2);
    CHECK(left_open.says("in the background"));
}

TEST_CASE("usage that makes no sense is refused, and says what to do")
{
    command_line c;
    auto const refused = [&](std::vector<std::string> const& words, std::string const& part) {
        auto const told = c.audit(words);
        CAPTURE(told.text);
        CHECK(told.code == 2);
        CHECK(told.says(part));
    };
    refused({}, "--databases FILE");
    refused({"--against", "true"}, "--service");
    refused({"--service", "payments", "--against", "true"}, "say what we have");
    refused({"--service", "payments", "--against", "true", "--step", "x", "--compare", "amount"},
            "--compare needs --ours");
    refused({"--service", "payments", "--against", "true", "--ours", "SELECT 1", "--compare", "amount,currency,amount"},
            "--compare has amount twice");
    refused({"--service", "orders", "--against", "true", "--step", "x"}, "leads to a database of payments");
    refused({"--service", "payments", "--against", "true", "--step", "x", "--since", "yesterday"}, "a time is");
    auto const long_ago = std::vector<std::string>{"--service", "payments", "--against", "exit 7",
                                                   "--step",    "x",        "--since",   "2020-01-01"};
    refused(long_ago, "exited with 7");  // nothing was ever deleted
    c.at("payments").db.run("UPDATE skald.service SET forgot_before = '2020-01-01T12:00:00Z'");
    refused(long_ago, "deleted its records from before 2020-01-01T13:00:00.000000Z");
    // What an unset variable leaves of an option must not turn it into another audit.
    refused({"--databases", c.databases(), "--against", ""}, "--against");
    refused({"--databases", c.databases(), "--against="}, "--against");
    for (std::string const option : {"--service", "--step", "--ours", "--ours-file", "--compare"})
        refused({"--databases", c.databases(), "--against", "true", option, ""}, "empty; give one");
    refused({"--since", "2026-01-01", "--databases", c.databases()}, "--against");
    refused({"--databases", "/nowhere"}, "--databases /nowhere can't be read");
    c.at("payments").db.run("SELECT skald.record_hosted('{charge-payment,book}', '{f,f}')");
    refused({"--service", "payments", "--against", "true", "--step", "charge-paymnet"},
            "payments has no step charge-paymnet; it has book, charge-payment");
    refused({"--service", "payments", "--against", "exit 7", "--step", "charge-payment.compensate"}, "exited with 7");
    refused({"--service", "kiosk", "--against", "true", "--step", "x", "--databases", c.databases()},
            "no line for kiosk");
}

TEST_CASE("a query of one's own tables is compared, of the service that a file of databases names")
{
    command_line c;
    c.at("payments")
        .db.run("CREATE TABLE paid AS SELECT order_id AS key, round(cents / 100.0, 2) AS amount, kind FROM charge");
    auto const audit = [&](std::string const& list) {
        return c.audit({"--service", "payments", "--databases", c.databases(), "--ours",
                        "SELECT key, amount FROM paid WHERE kind = 'charge';", "--compare", "amount", "--against", list,
                        "--json"},
                       "orders");
    };
    CHECK(audit(R"(echo '{"key":"o-1","amount":1.000}'; echo '{"key":"o-2","amount":"1"}')").code == 0);
    auto const off = audit(R"(echo '{"key":"o-1","amount":1.000}'; echo '{"key":"o-2","amount":"1.01"}')");
    CHECK(off.code == 1);
    CHECK(off.object()["findings"][0]["ours"] == "1.00");
    CHECK(off.object()["findings"][0]["theirs"] == "1.01");
}

TEST_CASE("what a process holds of an inbox may move a saga on")
{
    command_line c;
    c.at("orders").db.run("UPDATE skald.saga SET status = 'running', finished_at = NULL WHERE key = '1'");
    c.transport = "postgres";
    CHECK(c.audit({"--databases", c.databases(), "--again", "0s"}).says("the queues of its services are empty"));
    c.at("payments").db.run("INSERT INTO skald.queue (name) VALUES ('payments') ON CONFLICT DO NOTHING");
    c.at("payments")
        .db.run("INSERT INTO skald.inbox (queue, consumer, message_id, type, content_type, headers, body) "
                "VALUES ('payments', 7, '1', 't', '', '[]', '')");
    CHECK(c.audit({"--databases", c.databases(), "--again", "0s"}).code == 0);
}

TEST_CASE("all databases are examined, and a database that is away is an error")
{
    command_line c;
    auto const well = c.audit({"--databases", c.databases(), "--json"});
    CHECK(well.code == 0);
    CHECK(well.object()["sagas"] == 2);
    c.at("payments").db.run("DELETE FROM skald.idempotency WHERE key = '1'");
    auto const off = c.audit({"--databases", c.databases(), "--again", "0s"});
    CHECK(off.code == 1);
    CHECK(off.says("not_done"));
    CHECK(off.says("the customer was told that all is done"));

    std::ofstream{c.databases(), std::ios::app} << "kiosk=postgresql://127.0.0.1:1/none\n";
    auto const away = c.audit({"--databases", c.databases()});
    CHECK(away.code == 2);
    CHECK(away.says("nothing can be said: the database of kiosk: "));
}
