// The files that SKALD_SIGNING_KEYS names: what is wrong with one is told, and never what is in it.
#include <doctest/doctest.h>

#include "support/complaint.hpp"
#include "support/key_files.hpp"
#include "worker/settings.hpp"
#include "worker/signing_keys.hpp"

#include <skald/errors.hpp>

#include <optional>
#include <string>

using namespace skald;
using test::contains;

namespace {

std::optional<core::key_ring> read(std::string const& files, std::string const& signatures = "require")
{
    config c;
    c.signatures = signatures;
    c.signing_keys = files;
    c.check();
    return worker_detail::read_signing_keys(c);
}

std::string complaint(std::string const& files, std::string const& signatures = "require")
{
    return test::complaint_about([&] { read(files, signatures); });
}

std::string const secret(64, 'b');

}  // namespace

TEST_CASE("of one or two files with keys the first signs")
{
    test::key_files const keys;
    auto const one = keys.add("one", secret + '\n'), other = keys.add("other", std::string(64, 'c'), 0400);
    auto const alone = read(one);
    REQUIRE(alone);
    CHECK(alone->ids().size() == 1);
    auto const both = read(other + ',' + one, "sign");
    REQUIRE(both);
    CHECK(both->ids().size() == 2);
    CHECK(both->ids().back() == alone->ids().front());
}

TEST_CASE("where signatures are off there is no key, and a file with one is refused before it is looked at")
{
    CHECK_FALSE(read("", "off"));
    CHECK(contains(complaint("/no/such/file", "off"), "SKALD_SIGNING_KEYS is of SKALD_SIGNATURES=sign or require, "));
}

TEST_CASE("what is wrong with a key's file is told by its name, and what is in it is not shown")
{
    test::key_files const keys;
    auto const good = keys.add("good", secret);
    CHECK(contains(complaint(""), "SKALD_SIGNING_KEYS is missing: with SKALD_SIGNATURES=require"));
    CHECK(contains(complaint("/no/such/file"), "SKALD_SIGNING_KEYS (/no/such/file) can't be read: No such file"));
    CHECK(contains(complaint(keys.path()), keys.path() + ") can't be read: it is a folder"));
    CHECK(contains(complaint("/dev/zero"), "(/dev/zero) can't be read: it is a pipe or a device"));
    CHECK(contains(complaint(good + ",,"), "() can't be read"));
    CHECK(contains(complaint(good + ',' + good + ',' + good), "names 3 files"));
    CHECK(contains(complaint(good + ',' + keys.add("copy", secret)), "copy) holds the same key"));
    for (unsigned const mode : {0644u, 0602u, 0777u})
        CHECK(contains(complaint(keys.add("open", secret, mode)), "open) may be read or written by everybody"));
    for (auto const& content : {std::string{}, std::string{"hunter2"}, std::string(62, 'b'), secret + "zz",
                                std::string{"-----BEGIN PRIVATE KEY-----"}}) {
        auto const said = complaint(keys.add("bad", content));
        CHECK(contains(said, "bad) holds no key: at least 64 hexadecimal digits"));
        CHECK_FALSE(contains(said, "hunter2"));
        CHECK_FALSE(contains(said, "bbbb"));
    }
}

TEST_CASE("a key in the setting itself, or in the file that should name it, is an error that does not show it")
{
    test::key_files const keys;
    for (worker_detail::environment const& wrong : {worker_detail::environment{{"SKALD_SIGNING_KEYS", secret}},
                                                    {{"SKALD_SIGNING_KEYS_FILE", keys.add("key", secret + '\n')}}}) {
        auto const said = test::complaint_about([&] { worker_detail::from(wrong, {}); });
        CHECK(contains(said, "SKALD_SIGNING_KEYS holds a key, and should name the file"));
        CHECK_FALSE(contains(said, "bbbb"));
    }
    CHECK(contains(test::complaint_about([&] {
                       worker_detail::from({{"SKALD_SIGNATURES", "on"}}, {});
                   }),
                   "off, sign or require"));
}
