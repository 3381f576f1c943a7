// One connection that takes a service's messages out of its inbox, from its beginning to its loss.
#pragma once

#include "ports/transport.hpp"
#include "postgres/connection.hpp"
#include "transports/mailbox.hpp"
#include "transports/slow_start.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace pqxx {
class result;
class row;
}  // namespace pqxx

namespace skald::inbox {

/// Threads: one. Every function throws what pqxx throws, after which it is lost.
class consumer
{
public:
    /// After more returns than this, a message is given up.
    static constexpr int delivery_limit = 50;

    /// How long one may say nothing before its messages are given to others.
    static constexpr std::chrono::milliseconds silence_max{30'000};

    /// Connects and declares the service's queues. `generation` marks the deliveries. `ended` has the numbers of this
    /// process's consumers that were lost: what they had is free from now on. Adds its own.
    consumer(postgres::connection_options const& options, ports::subscriber const& who, std::uint64_t generation,
             std::vector<std::int64_t>& ended);
    ~consumer();
    consumer(consumer const&) = delete;
    consumer& operator=(consumer const&) = delete;

    /// Deletes and puts back what lanes have asked for.
    void settle(transports::requests const& asked);

    /// Takes what there is room for, and hands it over. False if there is no more that it knows of.
    bool take(transports::mailbox& box);

    /// Lets the next take() ask for every queue, though nobody has said that there is something.
    void look_again();

    /// Tells the others that it is alive, declares queues that somebody has deleted, frees what those had that are not
    /// alive, and finds out where the inbox begins. At most once a second.
    void keep();

    /// Gives back what it has: nothing comes any more.
    void close();

    /// Of the service's own queue: nothing is left before it.
    std::int64_t first_id() const { return queues_.front().first_id; }

    int socket() const;

    /// Whether somebody has said since the last take() began that there is something to take. poll() on the socket does
    /// not see it: a statement that ran meanwhile has read it.
    bool has_heard();

private:
    using clock = std::chrono::steady_clock;

    struct queue
    {
        std::string name;
        std::string handler;
        transports::slow_start start;
        std::int64_t first_id{1};  // nothing is left before it
        std::size_t out{};         // taken, and neither acked nor put back
        bool may_have_more{true};  // than was taken

        std::size_t room();
    };

    class ear;

    ports::delivery read(pqxx::row const& row);
    std::size_t index_of(std::string_view queue) const;
    std::map<std::int64_t, std::size_t>::iterator find_out(ports::delivery_tag tag);
    template <class Statement>
    void settle(std::vector<ports::delivery_tag> const& tags);
    bool end_others();
    void raise_first_ids();
    std::set<std::string> writers();

    std::uint64_t generation_;
    std::vector<std::int64_t>& ended_;
    std::vector<queue> queues_;
    std::string declares_;
    postgres::connection connection_;
    std::unique_ptr<ear> ear_;
    std::int64_t id_{};
    std::map<std::int64_t, std::size_t> out_;  // each row that it has, with the index of its queue
    clock::time_point next_keep_{};
    clock::time_point next_raise_{};
    std::int64_t last_id_{};         // a candidate for first_id, once all of these have ended
    std::set<std::string> writers_;  // that may have been given ids up to it
};

}  // namespace skald::inbox
