// How fast a service handles what waits for it in the broker.
#include "phase.hpp"

#include "bench_tool_sql.hpp"
#include "sink.hpp"

#include <stdexcept>

#include <fmt/format.h>

namespace skald_bench {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

// The step's next station is the sink, to which the handler publishes too.
constexpr std::string_view to_sink =
    "forward 2/3 create-order@bench-orders=compensatable charge-payment@bench-payments=pivot "
    "arrange-shipping@bench-sink=retriable";

/// Sends them with a service's relay, as a sender would whose queue's consumer is away.
void fill_queue(bench const& b, bench_databases& databases, implementation who, bool by_handler)
{
    auto& sender = databases.at(orders);
    if (by_handler) ask(sender, sql::messages_for_handler, b.chosen.messages);
    else ask(sender, sql::messages_for_step, b.chosen.messages, std::string{to_sink});
    databases.settle_down();
    fleet relay{b.chosen, b.interruptions, databases, {who, b.chosen.tcp, false, 1, {orders}}};
    relay.wait_for("filling the queue", 3'600s, 50ms, [&] { return !is_anything_unsent(databases); });
    relay.stop();
}

}  // namespace

message_figures run_messages(bench const& b, bench_databases& databases, implementation who, bool by_handler)
{
    message_sink const sink{b.chosen, databases, who};
    std::string const step = by_handler ? "payment-due" : "charge-payment";
    fill_queue(b, databases, who, by_handler);
    databases.settle_down();
    auto const charged = count_shop(databases).charges;
    auto const counted = [&] { return count_on_server(databases).rows["public.charge"].inserted; };
    auto const counted_before = counted();

    message_figures made{by_handler ? "by a message handler" : "by a step", b.chosen.messages, {}, {}, {}, {}};
    auto const began = clock::now();
    fleet service{b.chosen, b.interruptions, databases, {who, b.chosen.tcp, false, 1, {payments}}};
    growth series{{0.0, 0}};
    service.wait_for("handling the messages", 3'600s, 100ms, [&] {
        std::chrono::duration<double> const after = clock::now() - began;
        if (auto const now = counted() - counted_before; now > series.back().second)
            series.emplace_back(after.count(), now);
        return series.back().second >= made.messages && !is_anything_unsent(databases) &&
               ask(databases.at(payments), sql::handled, step)[0][0].as<std::int64_t>() >= made.messages;
    });
    service.stop();
    if (count_shop(databases).charges != charged + made.messages)
        throw std::runtime_error{fmt::format("{}: not one row for each message", made.label)};
    made.seconds = ask(databases.at(payments), sql::handled, step)[0][1].as<double>();
    made.per_second = made.seconds > 0 ? static_cast<double>(made.messages) / made.seconds : 0;
    made.first_quarter_per_second = first_quarter(series, made.messages);
    made.last_quarter_per_second = rate_between(series, made.messages - made.messages / 4, made.messages);
    return made;
}

}  // namespace skald_bench
