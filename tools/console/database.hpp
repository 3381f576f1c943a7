// The database of one service, as the console uses it: a few connections, each of them lent to one thread at a time. A
// database that is away makes its part of a page say so, and nothing else.
#pragma once

#include "postgres/connection.hpp"

#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace skald::console {

/// Why a database said nothing: in words for a page, without the address.
class away : public std::runtime_error
{
public:
    away(std::string service_of_it, std::string const& why) : std::runtime_error{why}, service{std::move(service_of_it)}
    {}
    std::string service;
};

/// Threads: any.
class database
{
public:
    enum class rights { reads, writes };

    database(std::string service, std::string const& url, std::chrono::milliseconds answer_within, rights what);

    std::string const& service() const { return service_; }

    /// Runs ask(connection&) on a connection that belongs to this service. Throws away if that fails, whatever the
    /// reason. What only reads is asked a second time if the connection turns out to be broken, as an idle one may be.
    template <class Ask>
    auto ask(Ask const& ask) -> decltype(ask(std::declval<postgres::connection&>()))
    {
        for (bool again = false;; again = true) {
            auto lent = borrow();
            bool const was_idle = lent.was_idle;
            try {
                auto answer = ask(*lent.connection);
                give_back(std::move(lent.connection));
                return answer;
            }
            catch (...) {
                if (lent.connection->is_open()) give_back(std::move(lent.connection));
                else if (was_idle && what_ == rights::reads && !again) continue;
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
    std::unique_ptr<postgres::connection> connect();
    void give_back(std::unique_ptr<postgres::connection> connection);
    [[noreturn]] void fail();  // with the exception that is being handled

    std::string service_;
    postgres::connection_options options_;
    rights what_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<postgres::connection>> idle_;
    clock::time_point away_until_{};  // not asked again before: a page must not wait for each of its parts
    std::string why_away_;
};

}  // namespace skald::console
