// What `skald` prints, and where it can't: a terminal that obeys what it is shown, a full disk, a closed stdout, a word
// that is no command, a role that may only read.
#include "support/shop.hpp"

using namespace skald::test;

namespace {

struct printed
{
    int code{};
    std::string text;
    bool has(std::string const& part) const { return text.find(part) != std::string::npos; }
};

/// A migrated database, and the commands of an operator's shell on it.
struct operated_database
{
    fresh_database database{"terminal"};

    operated_database() { REQUIRE(skald("migrate --service orders").code == 0); }

    printed skald(std::string const& words, std::string const& url) const
    {
        service_process shell{"/bin/sh",
                              {"-c", std::string{SKALD_TOOL} + ' ' + words},
                              {{"DATABASE_URL", url}, {"PATH", "/usr/bin:/bin"}}};
        auto const end = shell.run();
        return {end.code.value_or(-1), shell.log()};
    }
    printed skald(std::string const& words) const { return skald(words, database.url()); }
};

std::string const hostile = "E'\\x1b[31mX\\nsaga K: completed\\r' || chr(155)";
std::string const harmless = R"(\x1b[31mX\nsaga K: completed\r\x9b)";

}  // namespace

TEST_CASE_FIXTURE(operated_database, "output that can't be written is an error, whatever the command")
{
    database.ask("INSERT INTO skald.parked (reason, body, fingerprint) VALUES ('malformed', 'x', sha256('x'))");
    for (std::string const words :
         {"saga list", "saga list --json", "parked list", "parked show 1", "parked export 1", "outbox status",
          "purge --dry-run", "migrate --service orders", "--help", "saga --help", "--version"})
        for (std::string const nowhere : {" >/dev/full", " >&-"}) {
            auto const answer = skald(words + nowhere);
            CHECK_MESSAGE(answer.code == 1, words, nowhere, ": ", answer.text);
            CHECK_MESSAGE(answer.has("skald: the output could not be written"), words, nowhere, ": ", answer.text);
        }
    CHECK(skald("saga show k >&-").code == 1);
    CHECK_MESSAGE(skald("saga show k >&- 2>&-").code == 1, "a refusal has nowhere to go");
}

TEST_CASE_FIXTURE(operated_database,
                  "control characters that anyone wrote reach a terminal as text, and JSON unchanged")
{
    database.ask("INSERT INTO skald.parked (reason, body, fingerprint, key, step, error) VALUES "
                 "('malformed', 'x', sha256('x'), " +
                 hostile + ", 's', " + hostile +
                 ");"
                 "SELECT skald.enqueue('mail', 'x', 'k:x', '');"
                 "UPDATE skald.outbox SET attempts = 1, error = " +
                 hostile);
    for (std::string const words : {"parked list", "parked show 1", "outbox status"}) {
        auto const shown = skald(words);
        CHECK_MESSAGE(shown.has(harmless), words, ": ", shown.text);
        for (char const* raw : {"\x1b", "\r", "\x9b", "\nsaga K"}) CHECK_MESSAGE(!shown.has(raw), words);
    }
    auto const list = json::parse(skald("parked list --json").text);
    CHECK(list["parked"][0]["error"] == "\x1b[31mX\nsaga K: completed\r\u009b");
    auto const refused = skald("saga show \"$(printf 'k\\033[2J\\nskald: done')\"");
    CHECK_MESSAGE(refused.has(R"(no saga k\x1b[2J\nskald: done was started here)"), refused.text);
}

TEST_CASE_FIXTURE(operated_database, "a parked report, which has no step, is listed by its type")
{
    database.ask("INSERT INTO skald.parked (reason, body, fingerprint, type, error) VALUES ('malformed', 'x', "
                 "sha256('x'), 'skald.progress', 'no list')");
    auto const list = skald("parked list");
    CHECK_MESSAGE(list.has("skald.progress"), list.text);
}

TEST_CASE_FIXTURE(operated_database,
                  "what an operator gave as a reason is shown as text, and what a closed saga's rest meets is said")
{
    database.ask("SELECT skald.start('', 'k', 'place-order', 1, '{}', 'forward 1/1 wrap-gift@shipping=pivot', "
                 "sha256('x'), 'shipping', 'skald.step', '', '{}')");
    std::string const reason = " --reason \"$(printf '\\033[31mX\\nsaga K: completed\\r')\"";
    REQUIRE(skald("saga pause k" + reason).code == 0);
    auto const paused = skald("saga show k");
    CHECK_MESSAGE(paused.has(R"(\x1b[31mX\nsaga K: completed\r)"), paused.text);
    auto const closed = skald("saga close k --as completed --yes" + reason);
    CHECK_MESSAGE(closed.text == "saga k: closed as completed; what still arrives of it is parked as `closed`\n",
                  closed.text);
    for (std::string const words : {"saga show k", "saga list"}) {
        auto const shown = skald(words);
        CHECK_MESSAGE(shown.has(R"(\x1b[31mX\nsaga K: completed\r)"), shown.text);
        CHECK_MESSAGE(!shown.has("\x1b"), words);
    }
}

TEST_CASE_FIXTURE(operated_database, "a word that is no command is named")
{
    CHECK(skald("nope").has("skald: `nope` is no command of `skald`; `skald --help` lists them"));
    CHECK(skald("nope").code == 2);
    CHECK(skald("saga nope k").has("`nope` is no command of `skald saga`"));
    CHECK(skald("").has("A subcommand is required"));
    CHECK(skald("saga").has("A subcommand is required"));
    CHECK(skald("saga cancel").has("say which: the KEY of one saga"));
    CHECK(skald("saga list nope").has("not expected: nope"));
}

TEST_CASE_FIXTURE(operated_database, "an option of skald migrate that is there and empty is an error that names it")
{
    for (std::string const option : {"--service", "--grant"}) {
        auto const answer = skald("migrate " + option + " ''");
        CHECK(answer.code == 2);
        CHECK_MESSAGE(answer.has(option + ": empty"), answer.text);
    }
}

TEST_CASE_FIXTURE(operated_database, "a role that may only read is told what it lacks, in one line")
{
    auto const role = "reader_" + random_word();
    database.ask("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA skald TO " + role +
                 "; GRANT SELECT ON ALL TABLES IN SCHEMA skald TO " + role +
                 "; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA skald TO " + role);
    auto url = database.url();
    auto const user = url.find("://") + 3;
    url.replace(user, url.find_first_of(":@", user) - user, role);
    CHECK(skald("saga list", url).code == 0);
    for (std::string const words :
         {"saga cancel k", "saga close k --as completed --reason x --yes", "parked drop 1 --reason x", "purge"}) {
        auto const answer = skald(words, url);
        CHECK(answer.code == 1);
        CHECK_MESSAGE(std::ranges::count(answer.text, '\n') == 1, answer.text);
        CHECK_MESSAGE(answer.has("permission denied for table "), answer.text);
        CHECK_MESSAGE(answer.has(" (`skald migrate --grant ROLE` grants what a service needs)"), answer.text);
    }
    database.ask("DROP OWNED BY " + role + "; DROP ROLE " + role);
}
