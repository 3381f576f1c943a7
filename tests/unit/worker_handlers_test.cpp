// What a message handler may be given: errors come where the mistake is, before anything runs.
#include <skald/skald.hpp>

#include <doctest/doctest.h>

#include <string>

using skald::message_key;
using namespace std::chrono_literals;

namespace {

struct payment
{
    std::string id;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(payment, id)

struct enter_payment final : skald::retriable_step<payment>
{
    skald::forward_outcome execute(skald::step_context&, payment&) const override { return skald::done(); }
};
constexpr skald::retriable<payment> enter{"enter-payment", "books"};
constexpr auto keep_books = skald::define("keep-books", enter);

}  // namespace

TEST_CASE("a handler's name, key and bindings are checked where it is hosted")
{
    auto const nothing = [](skald::message_context&, payment&) {};
    skald::service s{"books"};
    s.host(keep_books, enter, enter_payment{});
    CHECK_THROWS_WITH_AS(s.on<payment>("payment.created", nothing),
                         doctest::Contains("belongs in message_options{.bind}"), skald::configuration_error);
    CHECK_THROWS_WITH_AS(s.on<payment>("enter-payment", nothing), doctest::Contains("each needs its own"),
                         skald::configuration_error);
    skald::service t{"books"};
    CHECK_THROWS_AS(t.on<payment>("a", nothing, {.key = message_key::members({})}), skald::configuration_error);
    CHECK_THROWS_WITH_AS(t.on<payment>("a", nothing, {.key = message_key::members({"id"})}),
                         doctest::Contains("begins with a slash"), skald::configuration_error);
    CHECK_THROWS_AS(t.on<payment>("a", nothing, {.key = message_key::uuid_v5("dns", {"/id"})}),
                    skald::configuration_error);
    CHECK_THROWS_AS(t.on<payment>("a", nothing, {.key = message_key::computed({})}), skald::configuration_error);
    for (std::string const pointer : {"/a~2", "/a~", "", "/~"})
        CHECK_THROWS_WITH_AS(t.on<payment>("a", nothing, {.key = message_key::members({pointer})}),
                             doctest::Contains("is no JSON pointer"), skald::configuration_error);
    CHECK_THROWS_WITH_AS(t.on<payment>("a", nothing, {.bind = {{"k", "shop", "banana"}}}),
                         doctest::Contains("message handler a: message_binding{.type} is direct, topic, fanout or "
                                           "headers, or empty"),
                         skald::configuration_error);
    CHECK_THROWS_WITH_AS(t.on<payment>("a", nothing, {.run = {.batch = 0}}),
                         doctest::Contains("message handler a: step_options{.batch}"), skald::configuration_error);
    CHECK_THROWS_AS(t.on<payment>("a", nothing, {.bind = {{"k", ""}}}), skald::configuration_error);
    CHECK_THROWS_WITH_AS(t.on<payment>("a", nothing, {.run = {.retry = {.deadline = 1s}}}),
                         doctest::Contains("message handler a: it has no deadline"), skald::configuration_error);
    t.on<payment>("a", nothing, {.bind = {{"k", "shop", "topic"}}, .key = message_key::members({"/a~1b", "/c~0"})});
    CHECK_THROWS_AS(t.on<payment>("a", nothing), skald::configuration_error);
}
