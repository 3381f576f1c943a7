// Where a group no longer knows what it has done: Kafka forgets that when none of its processes ran for a while.
#pragma once

#include "kafka/client.hpp"
#include "ports/transport.hpp"

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace skald::kafka_detail {

/// From the partition's beginning all comes again, and of what is older than its retention the guard no longer knows
/// whether it has run. Threads: one.
class lost_place
{
public:
    /// `guarded`: how long the guard remembers.
    lost_place(ports::subscriber const& who, std::chrono::hours guarded);

    /// The group has no offset in that partition, which begins at `low` and is not empty: whether a record in it may
    /// have run, and nobody knows. Throws kafka_error.
    bool has_forgotten(client& with, place const& where, std::int64_t low, std::chrono::milliseconds timeout) const;

    void add(place const& where) { where_[where.first].insert(where.second); }

    /// Leaves out the topics that are not in there, and returns them.
    std::vector<std::string> keep_only(std::set<std::string> const& topics);

    bool empty() const { return where_.empty(); }

    std::string why() const;

    /// What to do, as a sentence that goes on.
    std::string remedy(std::string const& brokers) const;

private:
    std::string service_;
    std::chrono::sys_time<std::chrono::milliseconds> since_;  // what is younger is guarded
    std::map<std::string, std::set<std::int32_t>> where_;     // by topic
};

}  // namespace skald::kafka_detail
