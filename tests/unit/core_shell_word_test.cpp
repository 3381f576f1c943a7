// What an operator pastes into a shell.
#include "core/shell_word.hpp"
#include "rabbitmq/url.hpp"

#include <doctest/doctest.h>

using skald::core::saga_command;
using skald::core::shell_word;

TEST_CASE("a word that a shell would not take for one is quoted")
{
    CHECK(shell_word("order-1") == "order-1");
    CHECK(shell_word("two words") == "'two words'");
    CHECK(shell_word("it's") == "'it'\\''s'");
    CHECK(shell_word("") == "''");
}

TEST_CASE("a command about a saga takes no key for an option")
{
    CHECK(saga_command("show", {"", "order-1"}) == "skald saga show order-1");
    CHECK(saga_command("show", {"a b", "-1"}) == "skald saga show --scope 'a b' -- -1");
    CHECK(saga_command("resolve", {"", "order-1"}, "a--b happened --result JSON") ==
          "skald saga resolve order-1 a--b happened --result JSON");
    auto const* const words = "charge happened --result JSON --reason WHY";
    CHECK(saga_command("resolve", {"acme", "order-1"}, words) ==
          "skald saga resolve order-1 charge happened --result JSON --reason WHY --scope acme");
    CHECK(saga_command("resolve", {"", "--reason"}, words) ==
          "skald saga resolve --result JSON --reason WHY -- --reason charge happened");
}

TEST_CASE("a command of RabbitMQ's names the vhost, if it is not the default one")
{
    CHECK(skald::rabbitmq::vhost_option("/").empty());
    CHECK(skald::rabbitmq::vhost_option("shop's") == " --vhost 'shop'\\''s'");
}
