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
    for (bool is_open = true; is_open;) {
        bool const is_complete = writer_ && links_.missing() == 0;
        auto const due = std::min(extends_at_, wants_at_);
        is_open = wait_for_work(is_complete ? due : std::min(due, connects_at_));
        if (is_open) connect_what_is_missing();
        write_all();
        if (clock::now() >= extends_at_) extend_marks();
        if (is_open && clock::now() >= wants_at_) exchange_wants();
    }
    writer_.reset();
    is_connected_ = false;
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

void redis_front::connect_what_is_missing()
{
    if (clock::now() < connects_at_) return;
    try {
        if (!writer_) writer_ = connect(options_.where, clock::now() + connect_longest);
        while (links_.missing() > 0) links_.add(connect(options_.where, clock::now() + connect_longest));
    }
    catch (link_error const& error) {
        return lost(error.what());
    }
    failures_ = 0;
    if (!is_connected_.exchange(true))
        log_.info("front.connected", {{"address", describe(options_.where.endpoints.front())}});
    told_.clear();
}

// Each reason is said once, until it is connected again.
void redis_front::lost(std::string_view why)
{
    core::backoff const waits{100ms, 1'000ms};
    std::minstd_rand random{static_cast<unsigned>(clock::now().time_since_epoch().count())};
    writer_.reset();
    links_.drop_free();  // of the same server: the call that tries whether it is well again needs a new one
    is_connected_ = false;
    is_wanted_ = false;
    connects_at_ = clock::now() + waits.wait(++failures_, random);
    if (told_.emplace(why).second) log_.warning("front.away", {{"error", why}});
}

void redis_front::write_all()
{
    if (!writer_) return;
    std::vector<write> all;
    {
        std::lock_guard const lock{work_mutex_};
        all = writes_.take_all();
    }
    std::size_t done = 0;
    try {
        auto const until = clock::now() + (all.empty() ? 0ms : std::chrono::milliseconds{write_longest});
        for (auto const& one : all) writer_->send(one.what->by_hash(one.keys, one.arguments));
        std::vector<write const*> unknown;
        for (auto const& one : all) {
            auto const answer = writer_->receive(until);
            if (script::is_unknown(answer)) unknown.push_back(&one);
            else if (answer.error().starts_with("READONLY")) throw link_error{std::string{answer.error()}};
            else if (!was_done(*all[done].what, answer)) dropped_.add();
            ++done;
        }
        for (auto const* one : unknown)
            if (!was_done(*one->what, writer_->ask(one->what->by_text(one->keys, one->arguments), until)))
                dropped_.add();
    }
    catch (link_error const& error) {
        dropped_.add(all.size() - done);
        lost(error.what());
    }
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
catch (link_error const& error) {
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
