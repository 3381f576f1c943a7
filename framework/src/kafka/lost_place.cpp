#include "kafka/lost_place.hpp"

#include "core/instant.hpp"
#include "kafka/operator_commands.hpp"

#include <algorithm>

namespace skald::kafka_detail {
namespace {

std::string listed(std::set<std::int32_t> const& numbers, char const* between)
{
    std::string all;
    for (auto const one : numbers) all += (all.empty() ? "" : between) + std::to_string(one);
    return all;
}

// As Kafka's tools read it.
std::string as_datetime(std::chrono::sys_time<std::chrono::milliseconds> at)
{
    return core::write_instant(at).substr(0, std::string_view{"2026-01-31T00:00:00"}.size()) + ".000";
}

}  // namespace

lost_place::lost_place(ports::subscriber const& who, std::chrono::hours guarded) : service_{who.service}
{
    using namespace std::chrono;
    since_ = ceil<seconds>(system_clock::now()) - guarded + 1h;  // clocks differ
    if (who.forgot_before) since_ = std::max(since_, sys_time<milliseconds>{*who.forgot_before} + 2h);
}

bool lost_place::has_forgotten(client& with, place const& where, std::int64_t low,
                               std::chrono::milliseconds timeout) const
{
    auto const first = make_list();
    rd_kafka_topic_partition_list_add(first.get(), where.first.c_str(), where.second)->offset =
        since_.time_since_epoch().count();
    check(rd_kafka_offsets_for_times(with.raw(), first.get(), static_cast<int>(timeout.count())),
          "asking how old a partition is");
    auto const& young = first->elems[0];
    check(young.err, "asking how old a partition is");
    return young.offset == RD_KAFKA_OFFSET_END || young.offset > low;
}

std::vector<std::string> lost_place::keep_only(std::set<std::string> const& topics)
{
    std::vector<std::string> others;
    for (auto const& [topic, partitions] : where_)
        if (!topics.contains(topic)) others.push_back(topic);
    for (auto const& one : others) where_.erase(one);
    return others;
}

std::string lost_place::why() const
{
    std::string all;
    for (auto const& [topic, partitions] : where_)
        all += (all.empty() ? "" : ", nor in ") + std::string{partitions.size() == 1 ? "partition " : "partitions "} +
               listed(partitions, ", ") + " of " + topic;
    return "the group skald." + service_ + " has no offset in " + all +
           ", and there are records older than SKALD_RETENTION_DAYS, or than what was purged: nobody knows whether "
           "they "
           "have run";
}

std::string lost_place::remedy(std::string const& brokers) const
{
    std::string topics;
    for (auto const& [topic, partitions] : where_) topics += "--topic " + topic + ':' + listed(partitions, ",") + ' ';
    return "stop all processes of this service, and say where to begin, no earlier than at this time (UTC): " +
           group_command(brokers, service_,
                         topics + "--reset-offsets --to-datetime " + as_datetime(since_) + " --execute") +
           " (docs/kafka.md, \"A group that has lost its place\"; " + with_tls_or_sasl + ")";
}

}  // namespace skald::kafka_detail
