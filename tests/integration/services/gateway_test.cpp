// Orders whose charges another system makes, while it misbehaves and the processes that call it are killed and stopped.
#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "support/gateway_shop.hpp"

using namespace skald::test;
using namespace std::chrono_literals;

namespace {

// A session may stand still in any transaction for 30 s: what takes less did not wait for that.
constexpr auto below_session_limit = 20s;

enum class strike { none, kill, stop };

struct round_of_orders
{
    char const* faults;
    strike at_a_till;
};

/// "key:step" of calls.
struct doubts
{
    std::set<std::string> known{};  // only the gateway can know their outcome
    // Taken from a process because the machine was too busy for it to renew their leases: it had called, or had not.
    std::set<std::string> possible{};

    std::set<std::string> all() const
    {
        auto both = known;
        both.insert(possible.begin(), possible.end());
        return both;
    }
};

// After which calls this process did not know what they had done.
void add_doubts_logged(doubts& to, service_process const& till)
{
    std::istringstream lines{till.log()};
    for (std::string line; std::getline(lines, line);) {
        bool const is_in_doubt =
            line.find(" call.failed ") != line.npos && line.find("did_not_happen=unknown") != line.npos;
        if (!is_in_doubt && line.find(" call.lost ") == line.npos) continue;
        auto const from = line.find(" key=") + 5;
        (is_in_doubt ? to.known : to.possible).insert(line.substr(from, line.find(' ', from) - from));
    }
}

// Kills or stops the process in the middle of calls, and wakes it when others have taken over. Returns the calls that
// were taken over: nobody but the gateway knows of them.
std::set<std::string> strike_at(gateway_shop& s, service_process& till, strike how)
{
    std::map<std::string, std::string> had;
    REQUIRE(wait_until([&] {
        s.look_after();
        had = s.fences_of(till);
        return had.size() >= 2;
    }));
    if (how == strike::kill) till.kill();
    else till.kill(SIGSTOP);
    had = s.fences_of(till);
    auto const began = std::chrono::steady_clock::now();
    auto const passed = [&] {
        return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began).count();
    };
    std::set<std::string> taken;
    std::string when;
    CHECK(wait_until(
        [&] {
            s.look_after();
            had.merge(s.fences_of(till));  // what it had asked for when it was stopped, and the server did after that
            auto const before = taken.size();
            taken.merge(s.taken_over(had));
            if (taken.size() > before)
                when += ' ' + std::to_string(taken.size()) + " after " + std::to_string(passed()) + " ms";
            return s.fences_of(till).empty();
        },
        below_session_limit));
    MESSAGE("of " << had.size() << " taken over:" << when << "; all gone after " << passed() << " ms");
    if (how == strike::kill) till.start();
    else till.kill(SIGCONT);
    s.wait_until_started(till);
    return taken;
}

doubts order_in_rounds(gateway_shop& s, std::vector<round_of_orders> const& rounds)
{
    doubts in_doubt;
    int number = 0;
    for (auto const& one : rounds) {
        s.gateway.plan(one.faults);
        s.place_round(number++);
        auto& till = number % 2 == 0 ? s.till_a : s.till_b;
        if (one.at_a_till != strike::none) {
            add_doubts_logged(in_doubt, till);  // its log begins again
            in_doubt.known.merge(strike_at(s, till, one.at_a_till));
        }
        CHECK(wait_until(
            [&] {
                s.look_after();
                return s.orders_db.count("skald.saga WHERE status IN ('running', 'compensating')") == 0;
            },
            60s));
        s.look_after();
        s.gateway.plan("{}");
    }
    for (auto const* till : {&s.till_a, &s.till_b}) add_doubts_logged(in_doubt, *till);
    return in_doubt;
}

std::set<std::string> unknown_steps(gateway_shop& s)
{
    std::set<std::string> all;
    for (auto const& row :
         s.payments_db.ask("SELECT key || ':' || step FROM skald.idempotency WHERE status = 'unknown'"))
        all.insert(row[0]);
    return all;
}

void check_end(gateway_shop& s, int orders)
{
    CHECK(s.all_end(60s));
    CHECK(s.outboxes_empty());
    CHECK(unknown_steps(s).empty());
    CHECK(s.payments_db.count("skald.started") == 0);
    CHECK(s.parked_in_all() == 0);
    CHECK(s.orders_db.count("customer_order") == orders);
    s.check_books(100001, 1000);
    s.check_ledger();
    for (auto* one : {&s.orders, &s.shipping, &s.till_a, &s.till_b}) CHECK(one->terminate().code == 0);
}

// What somebody says who has read the gateway's own list.
std::string answer_by_list(gateway_shop& s, std::string const& step, std::string const& order)
{
    bool const is_refund = step.ends_with(".compensate");
    for (auto const& one : s.gateway.charges())
        if (one.at("reference") == order && (!is_refund || one.at("refunded") == one.at("amount")))
            return json{
                {"happened",
                 {{"id", one.at("id")}, {"amount", one.at("amount")}, {"declined", one.at("status") == "declined"}}}}
                .dump();
    return R"({"did_not_happen": "it is not in the list"})";
}

// Empty: accepted.
std::string resolve(gateway_shop& s, std::string const& key, std::string const& step, std::string const& answer)
{
    return s.payments_db.value("SELECT coalesce(skald.resolve_step('', '" + key + "', '" + step + "', '" + answer +
                               "', 'the list says so'), '')");
}

// "i.status = 'unknown'" alone has those too that are answered, and not taken up yet.
constexpr auto* unanswered = "skald.started s JOIN skald.idempotency i USING (scope, key, step) "
                             "WHERE i.status = 'unknown' AND s.answer IS NULL";

void resolve_all(gateway_shop& s)
{
    for (auto const& row : s.payments_db.ask(
             std::string{"SELECT s.key, s.step, convert_from(s.body, 'UTF8')::jsonb->>'id' FROM "} + unanswered)) {
        auto const answer = answer_by_list(s, row[1], row[2]);
        std::string refused;
        // No answer is taken while a process asks the gateway itself, as it does now and then: say it again, as told.
        auto const is_taken = [&] { return (refused = resolve(s, row[0], row[1], answer)).empty(); };
        CHECK_MESSAGE(wait_until(is_taken), refused);
    }
}

// Each saga has ended, or waits for an answer.
bool stands_still(gateway_shop& s)
{
    s.look_after();
    return s.orders_db.count("skald.saga WHERE status NOT IN ('completed', 'compensated', 'unknown')") == 0 &&
           s.orders_db.count("skald.saga WHERE status = 'unknown'") == s.payments_db.count(unanswered);
}

// An answer may lead to a call that undoes another, and that may get none either: here most do not at first.
void resolve_until_all_end(gateway_shop& s)
{
    for (int round = 0; round < 5 && !unknown_steps(s).empty(); ++round) {
        // What a process that was stopped may still send, and the gateway still do, has happened before the list is
        // read.
        for (auto* till : {&s.till_a, &s.till_b}) {
            CHECK(till->terminate().code == 0);
            till->start();
            s.wait_until_started(*till);
        }
        s.gateway.kill_and_restart();
        s.gateway.plan(round == 0 ? R"({"fault": "hang_up_after", "share": 0.8})" : "{}");
        resolve_all(s);
        CHECK(wait_until([&] { return stands_still(s); }, 60s));
        MESSAGE(unknown_steps(s).size() << " calls are unknown again");
    }
}

}  // namespace

TEST_CASE("the example's payments charge by a gateway that they are told")
{
    gateway_shop s;
    s.payments.set_arguments({"--gateway", "127.0.0.1:" + std::to_string(s.gateway.port())});
    s.open();
    CHECK(s.order("k").status == 202);
    CHECK(s.order("none-left", {.sku = "rare"}).status == 202);
    CHECK(s.ends("k", "completed"));
    CHECK(s.ends("none-left", "compensated"));
    CHECK(s.gateway.charges().size() == 2);
    s.check_books(100001, 1000);
    s.check_ledger();
    s.close_in_order();

    service_process wrong{shop::program("payment"), {"--gateway", "nowhere"}, shop::variables(s.payments_db)};
    CHECK(wrong.run().code == 2);
    CHECK(wrong.has_logged("HOST:PORT"));
}

TEST_CASE("200 orders are charged once each by a gateway that knows keys, whatever breaks")
{
    gateway_shop s;
    s.open_with_tills();
    std::vector<round_of_orders> const rounds{
        {R"({"fault": "die_after", "next": 2})", strike::none},
        {R"({"fault": "slow 300"})", strike::kill},
        {R"({"fault": "hang_up_after", "share": 0.4})", strike::none},
        {R"({"fault": "slow 300"})", strike::stop},
        {R"({"fault": "error_after", "share": 0.4})", strike::none},
        {R"({"fault": "answer_late 400"})", strike::kill},
        {R"({"fault": "error_before", "share": 0.4})", strike::none},
        {R"({"fault": "slow 300", "share": 0.9})", strike::stop},
        {R"({"fault": "declined", "share": 0.3})", strike::none},
        {R"({"fault": "down 1500"})", strike::none},
    };
    CHECK(order_in_rounds(s, rounds).all().size() > 20);
    check_end(s, 200);
}

TEST_CASE("without keys and look-ups exactly the calls that nobody can know are unknown, and an answer ends them")
{
    gateway_shop s{{"--keys", "ignored", "--lookup", "off"}};
    s.open_with_tills();
    std::vector<round_of_orders> const rounds{
        {R"({"fault": "hang_up_after", "share": 0.2})", strike::none}, {R"({"fault": "slow 300"})", strike::kill},
        {R"({"fault": "error_before", "share": 0.2})", strike::none},  {R"({"fault": "slow 300"})", strike::stop},
        {R"({"fault": "die_after", "next": 1})", strike::none},        {R"({})", strike::none},
    };
    auto const in_doubt = order_in_rounds(s, rounds);
    auto const unknown = unknown_steps(s);
    CHECK(unknown.size() > 10);
    CHECK(std::ranges::includes(unknown, in_doubt.known));
    CHECK(std::ranges::includes(in_doubt.all(), unknown));
    CHECK(s.orders_db.count("skald.saga WHERE status = 'unknown'") == static_cast<long>(unknown.size()));
    CHECK(s.orders_db.count("skald.saga WHERE status NOT IN ('completed', 'compensated', 'unknown')") == 0);

    resolve_until_all_end(s);
    check_end(s, 120);
}

TEST_CASE("a process that is stopped in the transaction that records a call is replaced when the lease ends")
{
    gateway_shop s;
    s.open_with_tills();
    s.payments_db.ask("INSERT INTO wallet VALUES ('gated-eve', 1000)");
    s.payments_db.ask("INSERT INTO gate VALUES ('gated-eve')");
    REQUIRE(s.order("k", {.customer = "gated-eve"}).status == 202);
    auto const recording = [&] {
        return s.payments_db.count(
                   "pg_stat_activity WHERE application_name = 'skald/payments/settle' AND xact_start IS "
                   "NOT NULL AND query LIKE '%gate%'") > 0;
    };
    REQUIRE(wait_until(recording));
    auto& holder = s.fences_of(s.till_a).empty() ? s.till_b : s.till_a;
    REQUIRE(s.fences_of(holder).size() == 1);
    // Who looks for the process that has a call is told where.
    std::array<char, 256> host{};
    REQUIRE(::gethostname(host.data(), host.size() - 1) == 0);
    CHECK(s.payments_db.value("SELECT owner FROM skald.started")
              .ends_with(std::to_string(holder.pid()) + '@' + host.data()));
    holder.kill(SIGSTOP);
    auto const began = std::chrono::steady_clock::now();
    s.payments_db.ask("DELETE FROM gate");
    CHECK(s.ends("k", "completed", below_session_limit));
    MESSAGE("taken over and completed after "
            << std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began).count()
            << " ms, with a lease of 1,500 ms");
    holder.kill(SIGCONT);
    CHECK(wait_until([&] { return holder.has_logged(" step.outdated "); }));
    CHECK(s.gateway.charges().size() == 1);
    CHECK(s.payments_db.count("charge") == 1);
    for (auto* one : {&s.orders, &s.shipping, &s.till_a, &s.till_b}) CHECK(one->terminate().code == 0);
}
