#include "database.hpp"

#include "postgres/faults.hpp"
#include "postgres/literal.hpp"
#include "skald_console_queries.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

namespace skald::console {
namespace {

constexpr std::chrono::seconds left_alone{2};
constexpr std::chrono::milliseconds slack{500};  // for the way there and back
constexpr std::chrono::milliseconds sign_of_life{1'000};

std::string first_line(std::string_view text)
{
    return std::string{text.substr(0, text.find('\n'))};
}

}  // namespace

database::database(std::string service, std::string const& url, std::chrono::milliseconds answer_within, rights what)
    : service_{std::move(service)}, answer_within_{answer_within + slack}, what_{what}
{
    options_.url = url;
    options_.application_name = what == rights::reads ? "skald/console" : "skald/console-operator";
    options_.lock_timeout = std::min(answer_within, std::chrono::milliseconds{2'000});
    options_.statement_timeout = answer_within;
    options_.commit_timeout = slack;
    connector_ = std::thread{[this] { connect_when_wanted(); }};
}

database::~database()
{
    {
        std::lock_guard const lock{mutex_};
        is_ending_ = true;
    }
    changed_.notify_all();
    connector_.join();
}

database::loan database::borrow()
{
    for (;;) {
        auto lent = wait_for_one();
        if (what_ == rights::reads) {
            lent.connection->answer_within(patience::left(answer_within_));
            return lent;
        }
        // What writes is not asked twice, so that it must not find out on the way that its session ended long ago.
        try {
            lent.connection->answer_within(sign_of_life);
            if (lent.was_idle) lent.connection->ping();
            lent.connection->answer_within(answer_within_);
            return lent;
        }
        catch (std::exception const&) {
            forget_idle();
        }
    }
}

database::loan database::wait_for_one()
{
    std::unique_lock lock{mutex_};
    bool const was_idle = !idle_.empty();
    if (!was_idle && !is_away_) {
        auto const time = patience::left(answer_within_);
        ++waiting_;
        changed_.notify_all();
        bool const is_known = changed_.wait_for(lock, time, [&] { return !idle_.empty() || is_away_; });
        --waiting_;
        if (!is_known) note_away(fmt::format("the database took no connection within {} ms", time.count()));
    }
    if (idle_.empty()) throw away{service_, why_away_, kind_};
    loan lent{std::move(idle_.back()), was_idle};
    idle_.pop_back();
    return lent;
}

// Connecting is bounded in whole seconds, and for each host of an address: so pages leave it to this thread, which
// waits as long as it takes. A database that is away it asks until that is back, whether a page wants to know or not:
// what the next page hears is never old.
void database::connect_when_wanted()
{
    std::unique_lock lock{mutex_};
    auto const is_wanted = [&] { return is_ending_ || is_away_ || waiting_ > idle_.size(); };
    for (;;) {
        changed_.wait(lock, is_wanted);
        if (is_away_) changed_.wait_until(lock, left_alone_until_, [&] { return is_ending_; });
        if (is_ending_) return;
        lock.unlock();
        std::unique_ptr<postgres::connection> made;
        std::string why;
        auto kind = away::how::not_reached;
        try {
            made = connect();
        }
        catch (pqxx::broken_connection const& error) {
            why = first_line(error.what());
        }
        catch (std::exception const& error) {
            why = first_line(error.what());
            kind = away::how::refused;
        }
        lock.lock();
        is_away_ = false;
        if (made) idle_.push_back(std::move(made));
        else note_away(why, kind);
        changed_.notify_all();
    }
}

std::unique_ptr<postgres::connection> database::connect() const
{
    auto made = std::make_unique<postgres::connection>(options_);
    if (what_ == rights::reads) made->run(std::string{queries::only_read});
    auto const owner = made->run(std::string{queries::owner});
    auto const name = owner.empty() ? std::string{} : std::string{owner[0]["name"].c_str()};
    if (name != service_)
        throw configuration_error{fmt::format("the address given for {} leads to a database {}", service_,
                                              name.empty() ? "that no service owns yet" : "of " + name)};
    return made;
}

void database::give_back(std::unique_ptr<postgres::connection> connection)
{
    std::lock_guard const lock{mutex_};
    idle_.push_back(std::move(connection));
    is_away_ = false;
    changed_.notify_all();
}

bool database::forget_idle()
{
    std::lock_guard const lock{mutex_};
    idle_.clear();
    return true;
}

// Under the lock.
void database::note_away(std::string const& why, away::how kind)
{
    is_away_ = true;
    kind_ = kind;
    why_away_ = why;
    left_alone_until_ = clock::now() + left_alone;
    idle_.clear();
    changed_.notify_all();
}

void database::fail()
try {
    throw;
}
catch (away const&) {
    throw;
}
catch (pqxx::broken_connection const& error) {
    std::lock_guard const lock{mutex_};
    note_away(first_line(error.what()));
    throw away{service_, why_away_, away::how::lost};
}
catch (pqxx::sql_error const& error) {
    throw away{service_, first_line(error.what()), away::how::refused};
}
catch (std::exception const& error) {
    // Of ours, after the database had answered: what was asked may have been done, unless a deadlock undid it.
    bool const is_undone = what_ == rights::reads || postgres::says_blocked();
    throw away{service_, first_line(error.what()), is_undone ? away::how::refused : away::how::lost};
}

}  // namespace skald::console
