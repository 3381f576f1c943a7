// Message handlers in the kit: sent, replayed, crashed, and proved.
#include <skald/testing.hpp>

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct payment
{
    std::string id;
    std::int64_t cents{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(payment, id, cents)

struct enter_payment final : skald::retriable_step<payment>
{
    skald::forward_outcome execute(skald::step_context& ctx, payment& p) const override
    {
        ctx.sql("INSERT INTO entry VALUES ($1, $2)", p.id, p.cents);
        return skald::done();
    }
};
constexpr skald::retriable<payment> enter_step{"enter-payment", "books"};
constexpr auto enter_saga = skald::define("enter", enter_step);

skald::message_options by_id()
{
    skald::message_options options;
    options.key = skald::message_key::members({"/id"});
    options.bind = {{"paid"}};
    return options;
}

/// Enters a payment, tells others, replies and begins a saga. `slip`: what a mistaken one does besides.
skald::service books(std::function<void(skald::message_context&)> slip = [](auto&) {})
{
    skald::service s{"books"};
    s.migrate("0001_books", "CREATE TABLE entry (id text, cents bigint)");
    s.host(enter_saga, enter_step, enter_payment{});
    s.on<payment>(
        "payment-created",
        [slip](skald::message_context& ctx, payment const& p) {
            ctx.sql("INSERT INTO entry VALUES ('message ' || $1, $2)", p.id, p.cents);
            ctx.publish("elsewhere", "entered", {{"id", p.id}}, skald::unrouted::drop);
            ctx.reply({{"entered", p.id}});
            skald::start(ctx.tx(), enter_saga, p, {.key = "of-" + ctx.message_key()});
            slip(ctx);
        },
        by_id());
    return s;
}

skald::received_message paid(std::string body = R"({"id":"p-1","cents":7})")
{
    skald::received_message m;
    m.id = "m-1";
    m.headers = {{"skald-reply-to", "answers"}};
    m.body = std::move(body);
    return m;
}

}  // namespace

TEST_CASE("a message is handled once, and its reply is sent to each who asks")
{
    skald::testing::harness shop;
    shop.add(books());
    for (int copy = 0; copy < 3; ++copy) shop.send("books", "payment-created", paid());
    shop.deliver_all();
    CHECK(shop.ask("books", "SELECT id FROM entry ORDER BY 1") == skald::testing::rows{{"message p-1"}, {"p-1"}});
    CHECK(shop.ran("payment-created", 1));
    CHECK(shop.applied_once("p-1", "payment-created"));
    CHECK(shop.saga_is("of-p-1", "completed"));
    std::string replies;
    for (auto const& one : shop.sent())
        if (one.destination == "answers") replies += one.body;
    CHECK(replies == R"({"entered":"p-1"}{"entered":"p-1"}{"entered":"p-1"})");
    CHECK_THROWS_AS(shop.send("books", "nobody", paid()), skald::configuration_error);
}

TEST_CASE("a handler that is right passes every schedule")
{
    skald::testing::harness shop;
    shop.add(books());
    auto const proof = shop.prove_exactly_once("books", "payment-created", paid(), {.sampled = 10});
    INFO(proof.report());
    CHECK(proof);
    CHECK(proof.schedules() > 50);
}

TEST_CASE("a handler that does something outside its transaction is named")
{
    skald::testing::harness shop;
    shop.add(books([&](skald::message_context&) {
        pqxx::connection other{shop.database_url("books")};
        pqxx::work tx{other};
        tx.exec("INSERT INTO entry VALUES ('outside', 0)");
        tx.commit();
    }));
    auto const proof = shop.prove_exactly_once("books", "payment-created", paid());
    CHECK(!proof);
    CAPTURE(proof.report());
    CHECK(proof.report().find("payment-created") != std::string::npos);
}

TEST_CASE("a saga whose step starts another saga is judged by its own status")
{
    struct begin_other final : skald::pivot_step<payment>
    {
        skald::outcome execute(skald::step_context& ctx, payment& p) const override
        {
            skald::start(ctx.tx(), enter_saga, p, {.key = "other-" + p.id});
            return skald::done();
        }
    };
    constexpr skald::pivot<payment> begin_step{"begin-other", "books"};
    constexpr auto beginning = skald::define("beginning", begin_step);
    auto service = books();
    service.host(beginning, begin_step, begin_other{});
    skald::testing::harness shop;
    shop.add(std::move(service));
    auto const proof = shop.prove_exactly_once(beginning, payment{"p-1", 7}, {.quick = true});
    INFO(proof.report());
    CHECK(proof);
}

TEST_CASE("a message that its handler does not complete proves nothing")
{
    auto const fails = [](skald::received_message const& message, std::string const& why) {
        skald::testing::harness shop;
        shop.add(books([](skald::message_context& ctx) {
            if (ctx.message_key() == "p-2") throw std::runtime_error{"no such account"};
        }));
        auto const proof = shop.prove_exactly_once("books", "payment-created", message, {.quick = true});
        INFO(proof.report());
        CHECK(!proof);
        CHECK(proof.failed_schedule() == "forward");
        CHECK(proof.report().find(why) != std::string::npos);
    };
    fails(paid(R"({"id":"p-2","cents":7})"), "no such account");
    fails(paid(R"({"id":"p-1"})"), "payment-created in books: malformed");
    fails(paid("{}"), "payment-created in books: no_key");
}

TEST_CASE("a message to a handler that its service does not have is told")
{
    skald::testing::harness shop;
    shop.add(books([](skald::message_context& ctx) { ctx.publish("books.on.paymnt-created", "entered", {}); }));
    auto const proof = shop.prove_exactly_once("books", "payment-created", paid(), {.quick = true});
    INFO(proof.report());
    CHECK(!proof);
    CHECK(proof.report().find("a message goes to books.on.paymnt-created, and its service has no handler") !=
          std::string::npos);
}

TEST_CASE("what a proof's options name has to be there, and a proof that throws leaves the harness as new")
{
    skald::testing::harness shop;
    shop.add([] { return books(); });
    auto const refused = [&](skald::testing::proof_options const& options, char const* why) {
        CHECK_THROWS_WITH_AS(static_cast<void>(shop.prove_exactly_once("books", "payment-created", paid(), options)),
                             why, std::invalid_argument);
    };
    refused({.effects = {{"boks", "SELECT 1"}}}, "effects: boks: no step of that service is hosted here");
    refused({.signals = {{"payment-created", "{}"}}},
            "signals: payment-created: no step of that name waits for one here");
    CHECK_THROWS_AS(shop.send("boks", "payment-created", paid()), skald::configuration_error);
    CHECK_THROWS(static_cast<void>(shop.prove_exactly_once("books", "payment-created", paid(),
                                                           {.effects = {{"books", "SELECT nothing FROM entry"}}})));
    shop.send("books", "payment-created", paid());
    shop.fail("payment-created", 3);
    shop.run_to_the_end();
    CHECK(shop.ran("payment-created", 4));
    CHECK(shop.ask("books", "SELECT id FROM entry ORDER BY 1") == skald::testing::rows{{"message p-1"}, {"p-1"}});
}

TEST_CASE("a handler that says no to the message proves nothing")
{
    skald::service s{"books"};
    s.on<payment>(
        "refusing", [](skald::message_context&, payment const&) { return skald::reject("closed"); }, by_id());
    skald::testing::harness shop;
    shop.add(std::move(s));
    auto const proof = shop.prove_exactly_once("books", "refusing", paid(), {.quick = true});
    INFO(proof.report());
    CHECK(!proof);
    CHECK(proof.report().find("the handler refusing does not complete") != std::string::npos);
}

TEST_CASE("a saga whose event is never handled proves nothing")
{
    struct announce final : skald::pivot_step<payment>
    {
        skald::outcome execute(skald::step_context& ctx, payment& p) const override
        {
            ctx.publish("books.on.entered", "entered", {{"nr", p.id}});
            return skald::done();
        }
    };
    constexpr skald::pivot<payment> announce_it{"announce", "till"};
    constexpr auto announcing = skald::define("announcing", announce_it);
    skald::service till{"till"};
    till.host(announcing, announce_it, announce{});
    skald::service other{"books"};
    other.on<payment>("entered", [](skald::message_context&, payment const&) {}, {});
    skald::testing::harness shop;
    shop.add(std::move(till)).add(std::move(other));
    auto const proof = shop.prove_exactly_once(announcing, payment{"p-1", 7}, {.quick = true});
    INFO(proof.report());
    CHECK(!proof);
    CHECK(proof.report().find("a delivery was parked") != std::string::npos);
    CHECK(proof.report().find("entered in books") != std::string::npos);
}

TEST_CASE("a handler of any JSON gets the body as it was sent")
{
    std::vector<std::string> bodies;
    skald::service s{"books"};
    s.on<nlohmann::json>("anything",
                         [&](skald::message_context&, nlohmann::json const& body) { bodies.push_back(body.dump()); });
    skald::testing::harness shop;
    shop.add(std::move(s));
    std::vector<std::string> const sent{R"({"v":1})", "null", "12", "[1,2]", "[]"};
    for (auto const& body : sent) {
        auto message = paid(body);
        message.id = "m-" + std::to_string(bodies.size());
        shop.send("books", "anything", message);
        shop.deliver_all();
    }
    CHECK(bodies == sent);
}

TEST_CASE("a saga whose data is any JSON gets it as it was given")
{
    struct keep final : skald::retriable_step<nlohmann::json>
    {
        skald::forward_outcome execute(skald::step_context& ctx, nlohmann::json& data) const override
        {
            ctx.sql("INSERT INTO kept VALUES ($1)", data.dump());
            return skald::done();
        }
    };
    constexpr skald::retriable<nlohmann::json> keep_it{"keep", "books"};
    constexpr auto keeping = skald::define("keeping", keep_it);
    skald::service s{"books"};
    s.migrate("0001_kept", "CREATE TABLE kept (body text)").host(keeping, keep_it, keep{});
    skald::testing::harness shop;
    shop.add(std::move(s));
    shop.start(keeping, nlohmann::json{{"v", 1}}, {.key = "k-1"});
    shop.deliver_all();
    CHECK(shop.ask("books", "SELECT body FROM kept") == skald::testing::rows{{R"({"v":1})"}});
}
