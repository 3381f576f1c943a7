// The service `ledger`: it hears of deposits over a bank's exchange, enters each once, and replies with a receipt that
// no second run would write. A deposit `flaky...` fails the first time, and the receipt of one `large...` has 3 MiB.
#include <skald/skald.hpp>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace {

struct deposit
{
    std::string id;
    std::int64_t cents{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(deposit, id, cents)

// No constraint: a second run would show.
constexpr auto tables = "CREATE TABLE deposit (id text, cents bigint)";

void enter(skald::message_context& ctx, deposit const& d)
{
    ctx.sql("INSERT INTO deposit VALUES ($1, $2)", d.id, d.cents);
    if (d.id.starts_with("flaky") && ctx.attempt() == 1) throw std::runtime_error{"not now"};
    auto receipt = skald::make_key();
    if (d.id.starts_with("large")) receipt.append(3 * 1024 * 1024, 'r');
    ctx.reply({{"id", d.id}, {"receipt", receipt}});
}

}  // namespace

int main(int argc, char** argv)
{
    skald::service ledger{"ledger"};
    ledger.migrate("0001_ledger", tables)
        .on<deposit>("deposit", enter,
                     {.bind = {{.routing_key = "deposit.*", .exchange = "bank", .type = "topic"}},
                      .key = skald::message_key::members({"/id"}),
                      .run = {.retry = {.first = std::chrono::milliseconds{20}}}});
    return skald::run_service(std::move(ledger), argc, argv);
}
