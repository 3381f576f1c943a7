// The database of one service, as the console uses it: a few connections, each of them lent to one thread at a time. A
// database that is away makes its part of a page say so, and nothing else.
#pragma once

#include "patience.hpp"
#include "postgres/connection.hpp"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace skald::console {

/// Why a database said nothing: in words for a page, without the address.
class away : public std::runtime_error
{
public:
    enum class how {
        not_reached,  // it was not asked
        refused,      // it answered with an error: nothing was done
        lost,         // the connection broke after it was asked
    };

    away(std::string service_of_it, std::string const& why, how what_kind)
        : std::runtime_error{why}, service{std::move(service_of_it)}, kind{what_kind}
    {}
    std::string service;
    how kind;
};

/// Threads: any.
class database
{
public:
    enum class rights { reads, writes };

    database(std::string service, std::string const& url, std::chrono::milliseconds answer_within, rights what);
    ~database();
    database(database const&) = delete;
    database& operator=(database const&) = delete;

    std::string const& service() const { return service_; }

    /// Runs ask(connection&) on a connection that belongs to this service. Throws away if that fails, whatever the
    /// reason. What only reads is asked a second time if the connection turns out to be broken, as an idle one may be.
    template <class Ask>
    auto ask(Ask const& ask) -> decltype(ask(std::declval<postgres::connection&>()))
    {
        for (bool again = false;; again = true) {
            auto lent = borrow();
            try {
                auto answer = ask(*lent.connection);
                give_back(std::move(lent.connection));
                return answer;
            }
            catch (postgres::no_answer const&) {
                fail();
            }
            catch (...) {
                if (lent.connection->is_open()) give_back(std::move(lent.connection));
                else if (lent.was_idle && what_ == rights::reads && !again && forget_idle()) continue;
                fail();
            }
        }
    }

private:
    using clock = std::chrono::steady_clock;

    struct loan
    {
        std::unique_ptr<postgres::connection> connection;
        bool was_idle{};
    };

    loan borrow();
    loan wait_for_one();
    std::unique_ptr<postgres::connection> connect() const;
    void connect_when_wanted();
    void give_back(std::unique_ptr<postgres::connection> connection);
    bool forget_idle();
    void note_away(std::string const& why, away::how kind = away::how::not_reached);
    [[noreturn]] void fail();  // with the exception that is being handled

    std::string service_;
    postgres::connection_options options_;
    std::chrono::milliseconds answer_within_;
    rights what_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::unique_ptr<postgres::connection>> idle_;
    std::size_t waiting_{};  // pages that wait for a connection
    bool is_away_{};         // pages do not wait for it; it is asked again and again whether it is back
    clock::time_point left_alone_until_{};
    std::string why_away_;
    away::how kind_{};  // of why_away_, for who was not let through
    bool is_ending_{};
    std::thread connector_;  // last: it uses the rest
};

}  // namespace skald::console
