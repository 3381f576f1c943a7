// What a step's transaction hands over: the next message, the user's own, and word to the saga's home.
#include <doctest/doctest.h>

#include "runtime/consequences.hpp"

#include <nlohmann/json.hpp>

#include <set>
#include <string>

using namespace skald;
using namespace skald::core;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

envelope charge_payment()
{
    envelope e;
    e.saga = {"tenant-1", "order-1"};
    e.definition = "place-order";
    e.version = 2;
    e.itinerary = {
        {{"create-order", "orders", step_kind::compensatable}, {"charge-payment", "payments", step_kind::pivot}},
        {direction::forward, 1}};
    e.home = "orders";
    e.attempt = 3;
    return e;
}

runtime::step_report completed()
{
    return {step_status::completed, 3, saga_state::completed, true, "", *parse_instant("2026-01-31T12:00:00.000000Z")};
}

/// The changes that `report` from `service` makes.
ports::changes reported(envelope const& e, std::string_view service, runtime::step_report const& report)
{
    ports::changes changes;
    runtime::add_report(changes, e, service, report);
    return changes;
}

json member_of(ports::changes const& changes)
{
    REQUIRE(changes.messages.size() == 1);
    auto const body = json::parse(changes.messages[0].message.body);
    REQUIRE(body.is_array());
    REQUIRE(body.size() == 1);
    return body[0];
}

std::vector<message> published(std::vector<detail::published_message> const& messages)
{
    ports::changes changes;
    runtime::add_published(changes, {"tenant-1", "order-1"}, "place-order", "order-1:charge-payment", {}, messages);
    std::vector<message> out;
    for (auto const& e : changes.messages) {
        CHECK(e.scope == "tenant-1");
        CHECK(e.aggregate_type == "place-order");
        CHECK(e.aggregate_id == "order-1");
        CHECK(e.delay == 0ms);
        out.push_back(e.message);
    }
    return out;
}

}  // namespace

TEST_CASE("the next message is the envelope's, with the saga as its aggregate and its delay")
{
    auto const e = charge_payment();
    auto const enqueued = runtime::to_enqueue(e, "{}", 250ms);
    auto const read = read_envelope(enqueued.message);
    REQUIRE(std::holds_alternative<envelope>(read));
    CHECK(std::get<envelope>(read).key() == e.key());
    CHECK(std::get<envelope>(read).attempt == 3);
    CHECK(enqueued.message.destination == "payments");
    CHECK(enqueued.message.body == "{}");
    CHECK(enqueued.scope == "tenant-1");
    CHECK(enqueued.aggregate_type == "place-order");
    CHECK(enqueued.aggregate_id == "order-1");
    CHECK(enqueued.delay == 250ms);
}

TEST_CASE("a published message has a key derived from the step's, and goes where the step said")
{
    auto const messages = published({{"mails", "order-paid", R"({"a":1})"}});
    REQUIRE(messages.size() == 1);
    auto const& m = messages[0];
    CHECK(m.id == "order-1:charge-payment.1.order-paid");
    CHECK(find_header(m.headers, header::idempotency_key) == m.id);
    CHECK(find_header(m.headers, header::scope) == "tenant-1");
    CHECK(find_header(m.headers, header::definition) == "place-order");
    CHECK(m.destination == "mails");
    CHECK(m.type == "order-paid");
    CHECK(m.body == R"({"a":1})");
}

TEST_CASE("published messages are numbered in their keys, the same in every run of the step")
{
    std::vector<detail::published_message> const all{
        {"mails", "paid", "1"}, {"books", "booked", "2"}, {"mails", "paid", "3"}, {"books", "paid", "4"}};
    auto const messages = published(all);
    REQUIRE(messages.size() == 4);
    CHECK(messages[0].id == "order-1:charge-payment.1.paid");
    CHECK(messages[1].id == "order-1:charge-payment.2.booked");
    CHECK(messages[2].id == "order-1:charge-payment.3.paid");
    CHECK(messages[3].id == "order-1:charge-payment.4.paid");
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(published(all)[i].id == messages[i].id);
}

TEST_CASE("no two messages of one step have the same key, whatever their types are called")
{
    std::set<std::string> ids;
    auto const messages = published({{"mails", "paid", ""}, {"mails", "paid", ""}, {"mails", "2.paid", ""}});
    for (auto const& m : messages) ids.insert(m.id);
    CHECK(ids.size() == 3);
}

TEST_CASE("no message of one's own has the key of a step")
{
    for (auto const& m : published({{"mails", "paid", ""}, {"mails", "compensate", ""}})) {
        CAPTURE(m.id);
        CHECK_FALSE(parse_derived_key(m.id).has_value());
    }
}

TEST_CASE("a step that published nothing hands over nothing of its own")
{
    CHECK(published({}).empty());
}

TEST_CASE("elsewhere than at home, a step's report is a progress message to the home")
{
    auto const e = charge_payment();
    auto const changes = reported(e, "payments", completed());
    CHECK(changes.saga_changes.empty());
    REQUIRE(changes.messages.size() == 1);
    auto const& m = changes.messages[0].message;
    CHECK(m.destination == "orders");
    CHECK(m.type == progress_type);
    CHECK(m.id == "order-1:charge-payment.progress");
    CHECK(find_header(m.headers, header::idempotency_key) == m.id);
    CHECK(find_header(m.headers, header::scope) == "tenant-1");
    CHECK(find_header(m.headers, header::version) == "2");
    CHECK(changes.messages[0].delay == 0ms);
}

TEST_CASE("a progress message says what became of which step, where, when, and of the saga")
{
    auto const changes = reported(charge_payment(), "payments", completed());
    CHECK(member_of(changes) == json{{"scope", "tenant-1"},
                                     {"key", "order-1"},
                                     {"step", "charge-payment"},
                                     {"service", "payments"},
                                     {"status", "completed"},
                                     {"attempts", 3},
                                     {"at", "2026-01-31T12:00:00.000000Z"},
                                     {"saga", "completed"}});
}

TEST_CASE("a progress message names a compensation as such, with the reason for compensating")
{
    auto e = charge_payment().at({direction::back, 0});
    e.home = "elsewhere";
    e.reason = "insufficient funds";
    auto const member =
        member_of(reported(e, "orders", {step_status::completed, 1, saga_state::compensated, true, "", {}}));
    CHECK(member.at("step") == "create-order.compensate");
    CHECK(member.at("saga") == "compensated");
    CHECK(member.at("reason") == "insufficient funds");
}

TEST_CASE("a report without news of the saga does not speak of the saga")
{
    auto const e = charge_payment();
    runtime::step_report const retrying{step_status::retrying, 2, saga_state::running, false, "no \xff", {}};
    auto const member = member_of(reported(e, "payments", retrying));
    CHECK_FALSE(member.contains("saga"));
    CHECK_FALSE(member.contains("reason"));
    CHECK(member.at("status") == "retrying");
    CHECK(member.at("error") == "no \\xff");
    CHECK(reported(e, "orders", retrying).saga_changes.empty());
}

TEST_CASE("a reason that is no UTF-8 is told in a form that is")
{
    auto e = charge_payment();
    e.reason = "no \xff";
    CHECK(member_of(reported(e, "payments", completed())).at("reason") == "no \\xff");
}

TEST_CASE("in the home's own database the saga's row changes and no message is sent")
{
    auto e = charge_payment();
    e.reason = "insufficient funds";
    auto const changes = reported(e, "orders", {step_status::completed, 1, saga_state::compensating, true, "", {}});
    CHECK(changes.messages.empty());
    REQUIRE(changes.saga_changes.size() == 1);
    CHECK(changes.saga_changes[0].saga == e.saga);
    CHECK(changes.saga_changes[0].state == saga_state::compensating);
    CHECK(changes.saga_changes[0].reason == "insufficient funds");
}
