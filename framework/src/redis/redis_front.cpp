#include "redis/redis_front.hpp"

#include "core/text.hpp"
#include "redis/entry_bytes.hpp"

#include <charconv>
#include <random>
#include <utility>

namespace skald::redis_detail {
namespace {

using namespace std::chrono_literals;
using kind = ports::found::kind;

constexpr auto kept_ms = std::chrono::milliseconds{ports::kept_max}.count();

// It opens at once where Redis hangs, since each call then takes all of its time, and asks again soon: the call that
// tries it costs one request those few milliseconds.
constexpr core::breaker_settings breaker_of_ours{
    .at_a_time = 1'000'000, .window = 1'000ms, .calls_min = 20, .bad_in_a_row = 3, .open_for = {250ms, 1'000ms}};

std::string entry_of(std::string const& name)
{
    return name + ":r";
}
std::string mark_of(std::string const& name)
{
    return name + ":m";
}

std::string random_text()
{
    std::random_device seed;
    std::string bytes;
    for (int n = 0; n < 12; ++n) bytes += static_cast<char>(seed() & 0xFF);
    return core::to_hex(bytes) + '-';
}

}  // namespace

redis_front::redis_front(front_options options, core::logger& log)
    : options_{std::move(options)}, log_{log}, tokens_{random_text()}, links_{options_.links}, breaker_{breaker_of_ours}
{}

redis_front::~redis_front()
{
    close();
}

std::optional<core::breaker::call> redis_front::begin()
{
    std::lock_guard const lock{breaker_mutex_};
    auto const now = clock::now();
    if (breaker_.room(now) == 0) return std::nullopt;
    return breaker_.began(now);
}

void redis_front::end(core::breaker::call const& which, core::call_result how)
{
    std::optional<core::breaker_change> changed;
    {
        std::lock_guard const lock{breaker_mutex_};
        changed = breaker_.ended(which, clock::now(), how);
    }
    if (!changed) return;
    if (changed->to == core::breaker_state::closed) log_.info("front.asked_again");
    else log_.warning("front.avoided", {{"why", changed->why}});
}

// An act of a request, within its time. Nothing: no answer, whatever the reason. Without a script: GET.
std::optional<reply> redis_front::ask(script const* what, words const& keys, words const& arguments,
                                      clock::time_point until)
{
    auto const call = begin();
    if (!call) return std::nullopt;
    auto one = take_link(until);
    if (!one) {
        end(*call, core::call_result::nothing);
        return std::nullopt;
    }
    try {
        auto answer =
            what != nullptr ? what->run(*one, keys, arguments, until) : one->ask({"GET", keys.front()}, until);
        if (answer.error().starts_with("READONLY")) throw link_error{std::string{answer.error()}};
        if (auto const count = one->take_refused(); count > 0) {
            dropped_.add(count);
            say_refused(one->refusal());
        }
        links_.put_back(std::move(one));
        bool const is_refused = !answer.error().empty() && !answer.error().starts_with("WRONGTYPE");
        end(*call, is_refused ? core::call_result::failed : core::call_result::ok);
        if (!is_refused) return answer;
        say_refused(answer.error());
        return std::nullopt;
    }
    catch (std::exception const& error) {
        lose(*call);
        log_.debug("front.no_answer", {{"error", error.what()}});
        return std::nullopt;
    }
}

// One that is well, as far as that can be seen: a server, or what is between, may have ended it while it was not used.
std::unique_ptr<link> redis_front::take_link(clock::time_point until)
{
    for (;;) {
        auto one = links_.take(until);
        if (!one || one->is_quiet()) return one;
        one.reset();
        links_.lost();
        std::lock_guard const lock{work_mutex_};
        work_.notify_one();
    }
}

// Once for each kind: it goes on until somebody changes something in Redis. Without the arguments, which it may quote.
void redis_front::say_refused(std::string_view error)
{
    constexpr std::size_t kinds_max = 16;
    {
        std::lock_guard const lock{refused_mutex_};
        if (refused_.size() >= kinds_max || !refused_.emplace(error.substr(0, error.find(' '))).second) return;
    }
    log_.warning("front.refused", {{"error", error.substr(0, error.find(", with args"))}});
}

// The link of this call is of no use any more: the keeper makes another.
void redis_front::lose(core::breaker::call const& which)
{
    links_.lost();
    end(which, core::call_result::failed);
    std::lock_guard const lock{work_mutex_};
    work_.notify_one();
}

// What is there: the response, another request's, or nothing, also where it is not what is written there.
ports::found redis_front::read(ports::question const& q, std::string_view bytes)
{
    auto kept = read_entry(database_, q.id, q.epoch, bytes);
    if (kept) return compared(q, std::move(kept));
    if (bytes.substr(0, epoch_mark(q.epoch).size()) == epoch_mark(q.epoch)) malformed_.add();
    return {};
}

ports::found redis_front::find(ports::question const& q)
{
    auto const answer = ask(nullptr, {entry_of(name_of(database_, q.id))}, {}, in_time());
    if (!answer) return {kind::away};
    if (answer->is_nothing()) return {};
    if (answer->error().empty()) return read(q, answer->text());
    malformed_.add();
    return {};
}

ports::found redis_front::acquire(ports::question const& q, bool looks)
{
    auto const name = name_of(database_, q.id);
    auto const token = new_token();
    words const keys{entry_of(name), mark_of(name)};
    auto const hold = std::to_string(options_.hold.count());
    auto const until = in_time();
    auto answer = ask(&acquire_script(), keys, {token, hold, looks ? epoch_mark(q.epoch) : ""}, until);
    if (answer && answer->text(0) == "kept") {
        auto met = read(q, answer->text(1));
        if (met.what != kind::nothing) return met;
        answer = ask(&acquire_script(), keys, {token, hold, ""}, until);  // void or malformed: as if there were none
    }
    if (answer && answer->text(0) == "held") return {kind::held, {}, {}, std::chrono::milliseconds{answer->number(1)}};
    if (!answer || answer->text(0) != "acquired") {
        if (is_connected_) write_later({&release_script(), {keys.back()}, {token}});  // it may have been acquired
        return {kind::away};
    }
    remember(token, keys.back());
    return {kind::acquired, {}, token};
}

write redis_front::keeping(core::saga_id const& id, std::string entry, std::string const& token) const
{
    auto const name = name_of(database_, id);
    return {&keep_script(), {entry_of(name), mark_of(name)}, {std::move(entry), std::to_string(kept_ms), token}};
}

// Not waited for, and no other thread is woken for it: it goes out on the link by which the next request asks.
void redis_front::keep(ports::kept_response what)
{
    auto entry = write_entry(database_, what);
    if (entry.size() > entry_bytes_max) return dropped_.add();
    auto const call = begin();
    auto one = call ? take_link(clock::now()) : nullptr;
    if (!one) {
        if (call) end(*call, core::call_result::nothing);
        return write_later(keeping(what.id, std::move(entry), ""));
    }
    try {
        one->tell({"SET", entry_of(name_of(database_, what.id)), std::move(entry), "PX", std::to_string(kept_ms)});
        links_.put_back(std::move(one));
        end(*call, core::call_result::nothing);
    }
    catch (std::exception const&) {
        lose(*call);
        dropped_.add();
    }
}

// Waited for, so that who has the response does not hear that the request is under way.
bool redis_front::keep_and_release(ports::kept_response what, std::string const& token)
{
    auto entry = write_entry(database_, what);
    if (entry.size() > entry_bytes_max) {
        dropped_.add();
        release(what.id, token);
        return false;
    }
    forget(token);
    auto const one = keeping(what.id, std::move(entry), token);
    auto const answer = ask(one.what, one.keys, one.arguments, in_time());
    if (!answer) write_later(one);
    else if (answer->number() == 0) dropped_.add();
    return answer && answer->number() == 1;
}

void redis_front::release(core::saga_id const& id, std::string const& token)
{
    forget(token);
    words const keys{mark_of(name_of(database_, id))};
    if (!ask(&release_script(), keys, {token}, in_time())) write_later({&release_script(), keys, {token}});
}

std::string redis_front::new_token()
{
    return tokens_ + std::to_string(++tokens_made_);
}

void redis_front::remember(std::string const& token, std::string mark)
{
    std::lock_guard const lock{marks_mutex_};
    marks_.emplace(token, std::move(mark));
}

void redis_front::forget(std::string const& token)
{
    std::lock_guard const lock{marks_mutex_};
    marks_.erase(token);
}

void redis_front::write_later(write what)
{
    std::lock_guard const lock{work_mutex_};
    if (!is_open_ || !writes_.add(std::move(what))) dropped_.add();
    work_.notify_one();
}

ports::front::condition redis_front::now() const
{
    std::lock_guard const lock{breaker_mutex_};
    return {is_connected_, breaker_.state(clock::now()) != core::breaker_state::closed, dropped_.value(),
            malformed_.value()};
}

}  // namespace skald::redis_detail
