// What the other side has: all of it is read, or nothing is believed.
#include "audit/listing.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace skald::audit;

namespace {

std::vector<entry> listed(std::string const& command, std::vector<std::string> compare = {}, bool needs_end = false)
{
    listing_options options;
    options.command = command;
    options.compare = std::move(compare);
    options.variables = {{"SKALD_AUDIT_SINCE", "from"}};
    options.needs_end = needs_end;
    sorted_entries sorted;
    read_listing(options, sorted);
    std::vector<entry> all;
    while (auto one = sorted.next()) all.push_back(*one);
    return all;
}

/// Why it was refused; empty if it was not.
std::string refused(std::string const& command, std::vector<std::string> compare = {}, bool needs_end = false)
try {
    listed(command, std::move(compare), needs_end);
    return {};
}
catch (listing_refused const& error) {
    return error.what();
}

bool says(std::string const& text, std::string const& part)
{
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the objects of a command are read, with the digits of their numbers and the members that are compared")
{
    auto const all =
        listed(R"(printf '%s\n' '{"key":"b","amount":0.10000000000000000001,"more":{"key":[{"amount":1}]},"of":[]}'
                               printf '%s\n' '{"key":"a","amount":"12","paid":true}' '{"key":7,"amount":null}')",
               {"amount"});
    CHECK(all == std::vector<entry>{{"7", {std::nullopt}}, {"a", {"12"}}, {"b", {"0.10000000000000000001"}}});
}

TEST_CASE("the command is told the period, and gets no input")
{
    CHECK(listed(R"(cat; echo "{\"key\":\"$SKALD_AUDIT_SINCE\"}")") == std::vector<entry>{{"from", {}}});
}

TEST_CASE("a command that fails, in any part of a pipeline, does not mean that nothing is there")
{
    CHECK(says(refused("echo '{\"key\":\"a\"}'; exit 3"), "exited with 3"));
    CHECK(says(refused("(echo '{\"key\":\"a\"}'; exit 3) | cat"), "exited with 3"));
    CHECK(says(refused("(exit 3); echo '{\"key\":\"a\"}'"), "exited with 3"));
    CHECK(says(refused("echo '{\"key\":\"a\"}'; kill -9 $$"), "signal 9"));
    CHECK(says(refused("no-such-command-anywhere 2>&-"), "exited with 127"));
}

TEST_CASE("output that is no list of objects is refused, with the line and what to do")
{
    CHECK(says(refused("echo '{\"key\":\"a\"}'; echo oops"),
               "line 2: it is not JSON (syntax error while parsing value - invalid literal): oops"));
    CHECK(says(refused("printf '{\"key\":\"M\\374ller\"}\\n'"), "ill-formed UTF-8 byte"));
    CHECK(says(refused("echo oops"), "nothing was compared"));
    CHECK(says(refused("echo '[{\"key\":\"a\"}]'"), "it is an array"));
    CHECK(says(refused("echo '\"a\"'"), "it is not an object"));
    CHECK(says(refused("echo"), "it is not JSON"));
    CHECK(says(refused("echo '{\"id\":1}'"), "it has no \"key\""));
    CHECK(says(refused("echo '{\"key\":null}'"), "it has no \"key\""));
    CHECK(says(refused("echo '{\"key\":\"a\",\"key\":\"b\"}'"), "key twice"));
    CHECK(says(refused("echo '{\"key\":\"a\",\"amount\":[1]}'", {"amount"}), "is no single value"));
    CHECK(says(refused("echo '{\"key\":{}}'"), "it has no \"key\""));
    CHECK(says(refused("echo '{\"amount\":{},\"amount\":1,\"key\":\"a\"}'"), "amount twice"));
    CHECK(says(refused("echo '{\"key\":\"a\"}'", {"amount"}), "lacks \"amount\""));
    CHECK(says(refused("head -c 3000000 /dev/zero | tr '\\0' x"), "more than 1 MiB"));
}

TEST_CASE("output that was cut short is refused")
{
    CHECK(says(refused("printf '{\"key\":\"a\"}\\n{\"key\":\"b\"}'"), "cut short"));
    CHECK(says(refused("printf '{\"key\":\"a\"}\\n{\"ke'"), "cut short"));
    CHECK(says(refused("true"), "it printed nothing"));
    CHECK(says(refused("echo '{\"key\":\"a\"}'; echo '{\"end\":2}'"), "1 objects came before it"));
    CHECK(says(refused("echo '{\"end\":0}'; echo '{\"key\":\"a\"}'"), "after the line that says"));
    CHECK(says(refused("echo '{\"end\":\"all\"}'"), "not a number"));
    CHECK(says(refused("echo '{\"key\":\"a\"}'", {}, true), "without {\"end\": N}"));
}

TEST_CASE("a side that has nothing says so")
{
    CHECK(listed("echo '{\"end\":0}'").empty());
    CHECK(listed("echo '{\"key\":\"a\"}'; echo '{\"end\":1}'", {}, true).size() == 1);
}
