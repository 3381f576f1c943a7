// Settings that name files, and files that hold settings.
#include <doctest/doctest.h>

#include "support/complaint.hpp"
#include "support/temporary_file.hpp"
#include "worker/settings.hpp"

#include <string>
#include <vector>

using namespace skald;
using test::contains;
using test::temporary_file;
using worker_detail::environment;

namespace {

config read(environment const& variables)
{
    return worker_detail::from(variables, {});
}

std::string complaint(environment const& variables)
{
    return test::complaint_about([&] { read(variables); });
}

}  // namespace

TEST_CASE("TLS needs a certificate and its key, where there is HTTP")
{
    auto const alone = [](std::string const& name) {
        return complaint({{name, "some.pem"}, {"SKALD_HTTP_LISTEN", "127.0.0.1:0"}});
    };
    CHECK(contains(alone("SKALD_HTTP_TLS_CERTIFICATE"), "SKALD_HTTP_TLS_KEY is missing"));
    CHECK(contains(alone("SKALD_HTTP_TLS_KEY"), "SKALD_HTTP_TLS_CERTIFICATE is missing"));
    CHECK(complaint({{"SKALD_HTTP_TLS_KEY", "some.pem"}}) == "");
}

TEST_CASE("a key where its file's name should be is an error that does not show it")
{
    for (std::string const key :
         {"-----BEGIN PRIVATE KEY-----\nMC4CAQAw\n-----END PRIVATE KEY-----", "MC4CAQAw\nMC4C"}) {
        temporary_file const file{key};
        for (environment const& wrong :
             {environment{{"SKALD_HTTP_TLS_KEY", key}}, {{"SKALD_HTTP_TLS_KEY_FILE", file.path()}}}) {
            auto const said = complaint(wrong);
            CHECK(contains(said, "SKALD_HTTP_TLS_KEY holds PEM text, and should name the file"));
            CHECK_FALSE(contains(said, "MC4C"));
        }
    }
}

TEST_CASE("a secret is read from the file that is named, without the line's end")
{
    for (std::string const end : {"", "\n", "\r\n", "\n\n"}) {
        temporary_file const secret{"postgresql://u:p@db/shop" + end};
        CHECK(read({{"DATABASE_URL_FILE", secret.path()}}).database_url == "postgresql://u:p@db/shop");
        CHECK(read({{"AMQP_URL_FILE", secret.path()}}).amqp_url == "postgresql://u:p@db/shop");
    }
    temporary_file const lanes{"7\n"};
    CHECK(read({{"SKALD_LANES_FILE", lanes.path()}}).lanes == 7);
}

TEST_CASE("a file with nothing but blanks is no way to have the default")
{
    temporary_file const blank{" \n"};
    CHECK(contains(complaint({{"DATABASE_URL_FILE", blank.path()}}), "DATABASE_URL_FILE: empty"));
}

TEST_CASE("a value and a file for it are not both taken")
{
    temporary_file const secret{"postgresql://u:p@db/shop"};
    CHECK(complaint({{"DATABASE_URL", "postgresql://u:p@db/old"}, {"DATABASE_URL_FILE", secret.path()}}) ==
          "DATABASE_URL and DATABASE_URL_FILE are both set: leave one out");
}

TEST_CASE("a wrong value in a file is an error that names the variable")
{
    temporary_file const lanes{"many\n"};
    CHECK(contains(complaint({{"SKALD_LANES_FILE", lanes.path()}}), "SKALD_LANES_FILE: 'many' is not"));
}
