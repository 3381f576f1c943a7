// Connection strings: our settings are there, and the user's win. They are read by libpq itself, which keeps the last.
#include <doctest/doctest.h>

#include "postgres/conninfo.hpp"
#include "support/complaint.hpp"

#include <libpq-fe.h>

#include <map>
#include <memory>
#include <string>

using skald::postgres::with_defaults;

namespace {

/// The settings as libpq reads them.
std::map<std::string, std::string> settings_of(std::string const& text)
{
    CAPTURE(text);
    char* problem = nullptr;
    std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> const options{PQconninfoParse(text.c_str(), &problem),
                                                                               &PQconninfoFree};
    std::string const why = problem ? problem : "";
    PQfreemem(problem);
    CAPTURE(why);
    REQUIRE(options != nullptr);
    std::map<std::string, std::string> settings;
    for (auto const* option = options.get(); option->keyword != nullptr; ++option)
        if (option->val != nullptr) settings[option->keyword] = option->val;
    return settings;
}

std::map<std::string, std::string> settings_for(std::string const& url)
{
    return settings_of(with_defaults(url, "skald/payments/lane"));
}

}  // namespace

TEST_CASE("every form of connection string gets our settings")
{
    for (std::string const url : {"", "dbname=shop host=db", "postgresql://db/shop", "postgres://db/shop",
                                  "postgresql://db/shop?sslmode=require", "postgresql://db/shop?", "postgresql://",
                                  "postgresql:///shop?host=/run/postgresql", "postgresql://u:p@a:5432,b:5433/shop"}) {
        CAPTURE(url);
        auto const settings = settings_for(url);
        CHECK(settings.at("application_name") == "skald/payments/lane");
        CHECK(settings.at("connect_timeout") == "5");
        CHECK(settings.at("tcp_user_timeout") == "8000");
        CHECK(settings.at("keepalives") == "1");
        CHECK(settings.at("keepalives_idle") == "5");
        CHECK(settings.at("keepalives_interval") == "2");
        CHECK(settings.at("keepalives_count") == "3");
        CHECK(settings.at("target_session_attrs") == "read-write");
    }
}

TEST_CASE("what the user says stays as it was")
{
    auto const keywords = settings_for("host=db port=5433 dbname=shop user=app password='it\\'s a' sslmode=require");
    CHECK(keywords.at("host") == "db");
    CHECK(keywords.at("port") == "5433");
    CHECK(keywords.at("dbname") == "shop");
    CHECK(keywords.at("password") == "it's a");
    CHECK(keywords.at("sslmode") == "require");

    auto const url = settings_for("postgresql://app:p%3Fw%26@a:1,b:2/shop?sslmode=require&options=-c%20x%3D1");
    CHECK(url.at("host") == "a,b");
    CHECK(url.at("port") == "1,2");
    CHECK(url.at("user") == "app");
    CHECK(url.at("password") == "p?w&");
    CHECK(url.at("dbname") == "shop");
    CHECK(url.at("sslmode") == "require");
    CHECK(url.at("options") == "-c x=1");
}

TEST_CASE("a user's setting wins over ours")
{
    for (std::string const url :
         {"connect_timeout=1 application_name=theirs target_session_attrs=any dbname=shop",
          "postgresql://db/shop?connect_timeout=1&application_name=theirs&target_session_attrs=any"}) {
        CAPTURE(url);
        auto const settings = settings_for(url);
        CHECK(settings.at("connect_timeout") == "1");
        CHECK(settings.at("application_name") == "theirs");
        CHECK(settings.at("target_session_attrs") == "any");
        CHECK(settings.at("keepalives_idle") == "5");
    }
}

TEST_CASE("what can never connect is told at once, by its name, and without a password")
{
    auto const complaint = [](std::string const& url) {
        return skald::test::complaint_about([&] { skald::postgres::check_settings(url); });
    };
    for (std::string const right :
         {"", "dbname=shop host=db port=5433", "postgresql://app:secret@a:1,b:2/shop?sslmode=verify-full",
          "postgresql:///shop?host=/run/postgresql", "postgresql://db/shop?target_session_attrs=any",
          "postgresql://db/shop?sslrootcert=/etc/passwd&sslmode=verify-ca"})
        CHECK(complaint(right) == "");
    CHECK(complaint("postgresql://app:secret@db/shop?sslmode=nonsense") ==
          "DATABASE_URL: libpq says: invalid sslmode value: \"nonsense\"");
    CHECK(complaint("host=db target_session_attrs=writer").find("\"writer\"") != std::string::npos);
    CHECK(complaint("service=no-such-service").find("no-such-service") != std::string::npos);
    for (std::string const url :
         {"postgresql://app:s?crets=1@db/shop?pgbouncer=true",
          "postgres://db?ssl=true&pgbouncer=", "postgresql:///?sslmode=require&pgbouncer=true&options=-c%20x%3D1",
          "host=db password=s?crets pgbouncer=true"})
        CHECK(complaint(url) == "DATABASE_URL: libpq has no parameter `pgbouncer`; leave it out");
    for (std::string const url :
         {"postgresql://app:hunter2@secret@db/shop", "postgresql://app:hunter2@secret@db:5432/"})
        CHECK(complaint(url) == "DATABASE_URL: an @ in a password is written %40");
    CHECK(complaint("host=@abstract dbname=shop") == "");
    for (std::string const between : {",", "\n"})
        CHECK(complaint("postgresql://app:s3cret@a/shop" + between + "postgresql://app:s3cret@b/shop")
                  .starts_with("DATABASE_URL: it is to be one URL"));
    // What is quoted there is a piece of the password.
    CHECK(complaint("host=db password=my s3cret=1").starts_with("DATABASE_URL is neither a URL"));
    for (std::string const end : {" ", "\t", "\r\n"})
        CHECK(complaint("postgresql://app@db/shop" + end) ==
              "DATABASE_URL: the URL ends with a blank, which would count; take it out");
    for (std::string const wrong : {"port=99999", "port=5432,x", "connect_timeout=abc", "port=-1"})
        CHECK(complaint("host=a,b " + wrong).find("a port is 1 to 65535") != std::string::npos);
    CHECK(complaint("host=a,b port=5432, connect_timeout=3") == "");
    for (std::string const name : {"sslrootcert", "sslcert", "sslkey", "sslcrl"})
        CHECK(complaint("postgresql://app:secret@db/shop?sslmode=verify-full&" + name + "=/no/such.pem") ==
              "DATABASE_URL: " + name + " (/no/such.pem) can't be read: No such file or directory");
}

// libpq takes a password up to the @, whatever is in it.
TEST_CASE("a question mark in a URL's password is not where its settings begin")
{
    REQUIRE(settings_of("postgresql://app:p?w@db/shop").at("password") == "p?w");
    auto const settings = settings_for("postgresql://app:p?w@db/shop");
    CHECK(settings.at("password") == "p?w");
    CHECK(settings.at("host") == "db");
    CHECK(settings.at("dbname") == "shop");
}

TEST_CASE("a server that refuses a connection is told from one that is not there")
{
    using skald::postgres::remedy_of_no_connection;
    using skald::test::contains;
    std::string const failed{"connection to server at \"db\" (10.0.0.7), port 5432 failed: "};
    for (auto const& [said, remedy] : std::map<std::string, std::string>{
             {"FATAL:  password authentication failed for user \"pw\"\n",
              "check the user in DATABASE_URL, and its pass"},
             {"fe_sendauth: no password supplied\n", "check the user in DATABASE_URL, and its password"},
             {"FATAL:  role \"pw\" does not exist\n", "check the user in DATABASE_URL, and its password"},
             {"FATAL:  too many connections for role \"pw\"\n", "ALTER ROLE ... CONNECTION LIMIT"},
             {"FATAL:  too many connections for database \"shop\"\n", "ALTER DATABASE ... CONNECTION LIMIT"},
             {"FATAL:  sorry, too many clients already\n", "raise max_connections"},
             {"FATAL:  no pg_hba.conf entry for host \"10.0.0.8\", user \"pw\"\n", "its pg_hba.conf has to let"},
             {"FATAL:  permission denied for database \"shop\"\n", "GRANT CONNECT ON DATABASE"},
             {"Connection refused\n\tIs the server running on that host?\n",
              "check that it runs, and that DATABASE_URL"}})
        CHECK_MESSAGE(contains(remedy_of_no_connection(failed + said), remedy), said);
}
