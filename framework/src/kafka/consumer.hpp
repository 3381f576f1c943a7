// One member of a service's consumer group: what it has of which partitions, and what of that is settled.
#pragma once

#include "core/log.hpp"
#include "kafka/client.hpp"
#include "kafka/progress.hpp"
#include "kafka/routes.hpp"
#include "kafka/topics.hpp"
#include "ports/transport.hpp"
#include "transports/mailbox.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace skald::kafka_detail {

struct consumer_settings
{
    property_list properties;  // of librdkafka, the user's
    ports::subscriber who;
    topic_shape shape;
    bool declares{};
    std::chrono::milliseconds drain{5'000};  // how long what is out may hold up others, who are to have its partition
    std::chrono::hours guarded{24 * 30};     // how long the guard remembers what has run
    /// Where records of the service's topics did not come: asked for again, and then believed.
    std::shared_ptr<std::set<std::pair<place, std::int64_t>>> gaps{
        std::make_shared<std::set<std::pair<place, std::int64_t>>>()};
};

/// Threads: one. Every function throws kafka_error if no broker answers, client_lost after which a new one must be
/// made, and denied where this user may not consume: it goes on asking, and is_member() says whether it may again.
class consumer final : private listener
{
public:
    /// After more returns than this, a message is given up.
    static constexpr int delivery_limit = 50;

    /// Joins the group. `generation` marks the deliveries. Throws configuration_error for a topic that is missing where
    /// this process may make none, and for what librdkafka does not take.
    consumer(consumer_settings const& settings, std::uint64_t generation, core::logger& log);
    ~consumer() override;

    /// The group has answered: this process has what partitions it is to have, and is let read them.
    bool is_member() const;

    /// What was said of the topics that this user still may not read; empty: of none.
    std::string unreadable() const;

    /// What was out comes again, under another generation: no broker answers, and others may have it meanwhile.
    void take_back(std::uint64_t generation);

    /// Asks whether a broker answers again.
    void ask() { client_.ask(std::chrono::seconds{1}); }

    void settle(transports::requests const& asked);

    /// Takes partitions, gives them up, and commits what is settled; asks where there is a doubt.
    void keep();

    /// Takes what there is room for, and hands it over. False if there was no more.
    bool take(transports::mailbox& box);

    /// Nothing is wanted any more. Its partitions go to others when what is out is settled, or `drain` is over.
    void stop();

    /// Commits. The group knows that it is gone when it is destroyed.
    void close();

    /// How long nothing need be done if nothing happens.
    std::chrono::milliseconds patience() const;

    /// For who waits: readable when there may be something.
    transports::waker const& arrivals() const { return client_.arrivals(); }

private:
    using clock = std::chrono::steady_clock;
    using record_ptr = std::shared_ptr<rd_kafka_message_t>;

    struct partition
    {
        progress done;
        queue_ptr records;
        std::string committed{};               // what was committed last
        std::map<std::int64_t, int> copies{};  // of each that is out, how many are
        record_ptr next{};                     // read, and there was no room for it
        bool is_leaving{};
        std::multiset<std::size_t> together{};  // for each copy that is out, together_max()
    };

    /// One delivery.
    struct copy
    {
        place from;
        record_ptr record;
        std::size_t to{};
        int returns{};  // of this one

        bool is_suspect() const { return returns >= suspect_after; }
    };

    void rebalanced(rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t const* which) override;
    void commit_failed() override;

    void subscribe();
    void assign(rd_kafka_topic_partition_list_t& which);
    void open(rd_kafka_topic_partition_t& one);
    void say_what_is_denied();
    bool is_read(place const& where) const;
    bool is_read_whole(std::string const& topic) const;
    void ask_for_missing(place const& where, std::int64_t from, std::int64_t to);
    void say_what_was_deleted(rd_kafka_topic_partition_t const& one, std::int64_t low);
    [[noreturn]] void refuse_to_guess(place const& met);
    void leave();
    bool is_drained() const;
    void forget(place const& where);
    void drop_waiting(place const& where);

    bool has_room() const;
    bool take_of(place const& where, partition& of, std::vector<ports::delivery>& into);
    bool take_next(place const& where, partition& of, std::vector<ports::delivery>& into);
    bool wait_to_begin_anew(place const& where, partition const& of);
    void take_again(std::vector<ports::delivery>& into);
    static bool may_go_out(partition const& of, std::size_t copies, int returns);
    bool has_suspect_waiting(place const& where) const;
    ports::delivery hand_over(copy one, routed_record const& as);
    void put_back(copy one);
    void requeue(ports::delivery_tag tag);
    void settle(copy const& one);
    std::optional<copy> find_out(ports::delivery_tag tag);
    void is_back(copy const& one);

    void commit(bool waits);
    std::string text_of(partition const& of, std::int64_t ahead = 0) const;

    consumer_settings settings_;
    routes routes_;
    std::uint64_t generation_;
    core::logger& log_;
    std::uint64_t last_number_{};
    std::map<place, partition> partitions_;
    std::map<std::uint64_t, copy> out_;
    std::deque<copy> again_;
    partition_list leaving_;  // asked for by the group, and not yet given up
    clock::time_point leave_until_{};
    clock::time_point next_commit_{};
    // A commit that is sent while this process joins its group again is answered after that, for a generation that is
    // over: librdkafka would take the whole assignment for lost.
    std::optional<clock::time_point> joins_until_;
    int assigned_since_{};
    clock::time_point stop_until_{};
    bool is_subscribed_{}, is_assigned_{}, is_stopping_{}, is_unsubscribed_{}, is_closing_{};
    bool is_uncommitted_{};
    place last_taken_;
    std::map<std::string, std::string> unreadable_;  // topics that this user may not read, and what was said of each
    client client_;                                  // last: it tells the rest
};

}  // namespace skald::kafka_detail
