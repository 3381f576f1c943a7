// The keeper of the front by Redis: connects, writes what nobody waits for, and extends the marks of this process.
#include "core/backoff.hpp"
#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "redis/redis_front.hpp"

#include <algorithm>
#include <random>

namespace skald::redis_detail {
namespace {

using namespace std::chrono_literals;

// No request waits for these.
constexpr auto connect_longest = 1s;
constexpr auto write_longest = 1s;
constexpr auto close_longest = 500ms;

// That duplicates are worth it is told and heard this often, and holds for so long.
constexpr auto wants_every = 1s;
constexpr auto wants_last = 10s;

// So that marks of a process that lives outlast two extensions that come too late.
constexpr int extensions = 3;

// The other ones say how many marks there were, which need not be one.
bool was_done(script const& what, reply const& answer)
{
    return answer.error().empty() && (&what != &keep_script() || answer.number() == 1);
}

}  // namespace

void redis_front::open(std::string const& database)
{
    database_ = database;
    is_open_ = true;
    keeper_ = std::thread{[this] { run_keeper(); }};
}

void redis_front::close()
{
    {
        std::lock_guard const lock{work_mutex_};
        is_open_ = false;
    }
    work_.notify_one();
    if (keeper_.joinable()) keeper_.join();
}

void redis_front::run_keeper()
{
    extends_at_ = clock::now() + options_.hold / extensions;
    for (bool goes_on = true; goes_on;) {
        try {
            bool const is_complete = writer_ && links_.missing() == 0;
            auto const due = std::min(extends_at_, wants_at_);
            goes_on = wait_for_work(is_complete ? due : std::min(due, connects_at_));
            if (clock::now() >= extends_at_) extend_marks();
            write_all(goes_on ? write_longest : close_longest);
            if (is_open()) connect_what_is_missing();
            if (is_open() && clock::now() >= wants_at_) exchange_wants();
        }
        catch (std::exception const& error) {
            lost(error.what());
        }
    }
    writer_.reset();
    is_connected_ = false;
}

bool redis_front::is_open()
{
    std::lock_guard const lock{work_mutex_};
    return is_open_;
}

// Until there is something to write, a link to replace, or until then. False: there will be no more.
bool redis_front::wait_for_work(clock::time_point until)
{
    std::unique_lock lock{work_mutex_};
    work_.wait_until(lock, until, [this, until] {
        return !is_open_ || (writer_ && !writes_.is_empty()) || clock::now() >= until ||
               (links_.missing() > 0 && clock::now() >= connects_at_);
    });
    return is_open_;
}

// One at a time: marks are to be extended meanwhile. Where another one can't be made, those that there are go on.
void redis_front::connect_what_is_missing()
{
    if (clock::now() < connects_at_ || (writer_ && links_.missing() == 0)) return;
    try {
        auto made = connect(options_.where, clock::now() + connect_longest);
        failures_ = 0;
        if (!writer_) writer_ = std::move(made);
        else links_.add(std::move(made));
    }
    catch (std::exception const& error) {
        return writer_ && links_.missing() < options_.links ? put_off(error.what()) : lost(error.what());
    }
    if (links_.missing() == options_.links) return;
    if (!is_connected_.exchange(true))
        log_.info("front.connected", {{"address", describe(options_.where.endpoints.front())}});
    if (links_.missing() == 0) told_.clear();
}

void redis_front::lost(std::string_view why)
{
    writer_.reset();
    links_.drop_free();  // of the same server: the call that tries whether it is well again needs a new one
    is_connected_ = false;
    is_wanted_ = false;
    put_off(why);
}

// Each reason is said once, until all is connected again.
void redis_front::put_off(std::string_view why)
{
    core::backoff const waits{100ms, 1'000ms};
    std::minstd_rand random{static_cast<unsigned>(clock::now().time_since_epoch().count())};
    connects_at_ = clock::now() + waits.wait(++failures_, random);
    if (told_.emplace(why).second) log_.warning("front.away", {{"error", why}});
}

void redis_front::write_all(std::chrono::milliseconds longest)
{
    if (!writer_) return;
    std::vector<write> all;
    {
        std::lock_guard const lock{work_mutex_};
        all = writes_.take_all();
    }
    std::size_t done = 0;
    try {
        auto const until = clock::now() + longest;
        for (auto const& one : all) writer_->send(one.what->by_hash(one.keys, one.arguments));
        std::vector<write const*> unknown;
        for (auto const& one : all) {
            auto const answer = writer_->receive(until);
            if (script::is_unknown(answer)) unknown.push_back(&one);
            else check_written(one, answer);
            ++done;
        }
        for (auto const* one : unknown)
            check_written(*one, writer_->ask(one->what->by_text(one->keys, one->arguments), until));
    }
    catch (std::exception const& error) {
        dropped_.add(all.size() - done);
        lost(error.what());
    }
}

void redis_front::check_written(write const& what, reply const& answer)
{
    if (answer.error().starts_with("READONLY")) throw link_error{std::string{answer.error()}};
    if (!answer.error().empty()) say_refused(answer.error());
    if (!was_done(*what.what, answer)) dropped_.add();
}

// One process may have the first requests, and another one their duplicates: then both have to know.
void redis_front::exchange_wants()
try {
    wants_at_ = clock::now() + wants_every;
    if (!writer_) return;
    auto const name = "skald:wanted:" + core::to_hex(core::fingerprint_of(database_));
    auto const until = clock::now() + write_longest;
    if (wants_.exchange(false)) {
        auto const lasts = std::chrono::milliseconds{wants_last};
        writer_->ask({"SET", name, "1", "PX", std::to_string(lasts.count())}, until);
    }
    is_wanted_ = writer_->ask({"EXISTS", name}, until).number() == 1;
}
catch (std::exception const& error) {
    lost(error.what());
}

void redis_front::extend_marks()
{
    extends_at_ = clock::now() + options_.hold / extensions;
    if (!writer_) return;
    std::lock_guard const lock{work_mutex_};
    std::lock_guard const marks{marks_mutex_};
    for (auto const& [token, mark] : marks_)
        writes_.add({&extend_script(), {mark}, {token, std::to_string(options_.hold.count())}});
}

}  // namespace skald::redis_detail
