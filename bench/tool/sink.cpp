#include "sink.hpp"

#include "bench_tool_sql.hpp"

#include <stdexcept>

namespace skald_bench {
namespace {

constexpr char const* queue = "skald.bench.sink";
constexpr char const* routing_key = "bench-sink";
constexpr std::int64_t kept = 1'000;

}  // namespace

message_sink::message_sink(options const& chosen, bench_databases& databases, implementation who)
{
    if (who == implementation::kafka) throw std::logic_error{"over Kafka there is no sink"};
    if (who == implementation::inbox) {
        inboxes_ = &databases;
        for (auto const service : {orders, payments, shipping})
            ask(databases.at(service), sql::open_inbox, service_names.at(service));
        ask(databases.at(shipping), sql::open_queue, routing_key);
        return;
    }
    broker_.emplace(chosen.broker_url);
    broker_->declare_exchange("skald", "direct");
    broker_->declare_queue(queue, {text_entry("x-queue-type", "quorum"), number_entry("x-max-length", kept)});
    broker_->bind_queue(queue, "skald", routing_key);
}

message_sink::~message_sink()
{
    if (broker_) broker_->delete_queue(queue);
    if (inboxes_ == nullptr) return;
    try {
        for (auto const service : {orders, payments, shipping}) ask(inboxes_->at(service), sql::empty_inbox);
    }
    catch (std::exception const&) {
        // The databases are made anew before the next measurement.
    }
}

}  // namespace skald_bench
