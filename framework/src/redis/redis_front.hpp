// The front, by Redis. A request asks on a link of its own and waits for a few milliseconds at most; whatever need not
// be waited for is left to the keeper, a thread that also connects and extends the marks.
#pragma once

#include "core/breaker.hpp"
#include "core/log.hpp"
#include "metrics/counter.hpp"
#include "ports/front.hpp"
#include "redis/link_pool.hpp"
#include "redis/script.hpp"
#include "redis/writes.hpp"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

namespace skald::redis_detail {

struct front_options
{
    address where;
    std::chrono::milliseconds time{5};      // that an act may take
    std::chrono::milliseconds hold{3'000};  // how long a mark lasts that nobody extends
    std::size_t links{8};                   // requests that ask at a time
};

/// Threads: any, for find(), acquire(), keep(), release() and now(); one for the rest.
class redis_front final : public ports::front
{
public:
    /// `log` must outlive it.
    redis_front(front_options options, core::logger& log);
    ~redis_front() override;

    void open(std::string const& database) override;
    void close() override;

    ports::found find(ports::question const& q) override;
    ports::found acquire(ports::question const& q, bool looks) override;
    void keep(ports::kept_response what) override;
    bool keep_and_release(ports::kept_response what, std::string const& token) override;
    void release(core::saga_id const& id, std::string const& token) override;
    void leave(std::string const& token) override { forget(token); }
    void want() override { wants_.store(true, std::memory_order_relaxed); }
    bool is_wanted() const override { return is_wanted_.load(std::memory_order_relaxed); }
    condition now() const override;

private:
    using clock = link::clock;

    clock::time_point in_time() const { return clock::now() + options_.time; }
    std::optional<reply> ask(script const* what, words const& keys, words const& arguments, clock::time_point until);
    std::unique_ptr<link> take_link(clock::time_point until);
    void say_refused(std::string_view error);
    std::optional<core::breaker::call> begin();
    void end(core::breaker::call const& which, core::call_result how);
    void lose(core::breaker::call const& which);
    ports::found read(ports::question const& q, std::string_view bytes);
    std::string new_token();
    void remember(std::string const& token, std::string mark);
    void forget(std::string const& token);
    write keeping(core::saga_id const& id, std::string entry, std::string const& token) const;
    void write_later(write what);

    void run_keeper();
    bool is_open();
    bool wait_for_work(clock::time_point until);
    void connect_what_is_missing();
    void write_all(std::chrono::milliseconds longest);
    void check_written(write const& what, reply const& answer);
    void extend_marks();
    void exchange_wants();
    void lost(std::string_view why);
    void put_off(std::string_view why);

    front_options const options_;
    core::logger& log_;
    std::string database_;
    std::string const tokens_;  // with what those of this process begin
    std::atomic<std::uint64_t> tokens_made_{};

    link_pool links_;
    std::mutex mutable breaker_mutex_;
    core::breaker breaker_;
    metrics::counter dropped_;
    metrics::counter malformed_;

    std::mutex marks_mutex_;
    std::map<std::string, std::string> marks_;  // that requests of this process hold: token, and name

    std::mutex refused_mutex_;
    std::set<std::string, std::less<>> refused_;  // that it does, by the first words of its errors

    std::atomic<bool> wants_{};      // to be told to the other processes
    std::atomic<bool> is_wanted_{};  // what they have told

    // --- The keeper's ---
    std::mutex mutable work_mutex_;
    std::condition_variable work_;
    write_queue writes_;
    bool is_open_{};
    std::unique_ptr<link> writer_;
    std::atomic<bool> is_connected_{};
    std::set<std::string, std::less<>> told_;  // why it is away, since it was connected
    int failures_{};
    clock::time_point connects_at_{};
    clock::time_point extends_at_{};
    clock::time_point wants_at_{};
    std::thread keeper_;
};

}  // namespace skald::redis_detail
