// skald-bench-guard: what a request costs at the guard itself, without HTTP and without a client: first requests at one
// worker, and their duplicates at another one of the same service, both in this process and without responses in
// memory. What other processes do meanwhile (PostgreSQL, Redis) is in the rates, and not in the processor time.
//
//     DATABASE_URL=... SKALD_TRANSPORT=postgres SKALD_REDIS_URL=... skald-bench-guard [callers] [first requests]
#include <skald/redis.hpp>
#include <skald/skald.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <latch>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

namespace {

using clock_type = std::chrono::steady_clock;

constexpr int warm_up = 300;
constexpr std::chrono::milliseconds until_both_know{1'500};

struct load
{
    int callers{};
    int requests{};  // of each caller, with as many keys
    std::string prefix;
};

struct figures
{
    double per_second{};
    double p50_us{}, p99_us{};
    double cpu_us{};  // of this process, for each request
    int wrong{};
};

skald::service guarded()
{
    skald::service s{"bench-guard"};
    s.migrate("0001_effect", "CREATE TABLE guard_effect (key text)");
    s.front(skald::redis());
    s.post("/guarded", [](skald::http::request_context& ctx) {
        ctx.sql("INSERT INTO guard_effect VALUES ($1)", ctx.key());
        return skald::http::json_response(201, {{"key", ctx.key()}});
    });
    return s;
}

/// A worker that answers for as long as this lives.
class serving
{
public:
    explicit serving(skald::config const& settings) : worker_{guarded(), settings}
    {
        std::latch started{1};
        thread_ = std::jthread{[&] { worker_.run([&] { started.count_down(); }); }};
        started.wait();
    }
    ~serving() { worker_.stop(); }
    serving(serving const&) = delete;
    serving& operator=(serving const&) = delete;

    skald::http::response ask(std::string const& key)
    {
        return worker_.entry().respond_and_wait(
            {.method = "POST", .target = "/guarded", .headers = {{"Idempotency-Key", key}}, .body = "{}"});
    }

private:
    skald::worker worker_;
    std::jthread thread_;
};

double cpu_seconds()
{
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    auto const seconds = [](timeval t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

figures measure(serving& at, load const& l)
{
    std::vector<double> all;
    int wrong = 0;
    std::mutex mutex;
    auto const cpu = cpu_seconds();
    auto const from = clock_type::now();
    {
        std::vector<std::jthread> callers;
        for (int caller = 0; caller < l.callers; ++caller)
            callers.emplace_back([&, caller] {
                std::vector<double> mine;
                int mine_wrong = 0;
                for (int n = 0; n < l.requests; ++n) {
                    auto const key = l.prefix + std::to_string(caller) + '-' + std::to_string(n);
                    auto const begun = clock_type::now();
                    auto const got = at.ask(key);
                    mine.push_back(std::chrono::duration<double, std::micro>(clock_type::now() - begun).count());
                    if (got.status != 201 || got.body.find(key) == std::string::npos) ++mine_wrong;
                }
                std::lock_guard const lock{mutex};
                all.insert(all.end(), mine.begin(), mine.end());
                wrong += mine_wrong;
            });
    }
    std::chrono::duration<double> const took = clock_type::now() - from;
    std::ranges::sort(all);
    auto const count = static_cast<double>(all.size());
    return {count / took.count(), all.at(all.size() / 2), all.at(all.size() * 99 / 100),
            (cpu_seconds() - cpu) / count * 1e6, wrong};
}

void show(std::string const& way, char const* what, figures const& f)
{
    std::printf("%-12s %-14s %8.0f /s   p50 %6.0f us   p99 %6.0f us   processor time here %5.0f us   wrong %d\n",
                way.c_str(), what, f.per_second, f.p50_us, f.p99_us, f.cpu_us, f.wrong);
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv)
try {
    load l{argc > 1 ? std::atoi(argv[1]) : 4, argc > 2 ? std::atoi(argv[2]) : 2'000, {}};
    if (l.callers < 1 || l.requests < 1) throw std::invalid_argument{"usage: skald-bench-guard [callers] [requests]"};
    for (std::string const way : {"postgres", "cache_aside", "lock", "accelerator"}) {
        auto settings = skald::config::from_environment();
        settings.guard = way;
        settings.http_lanes = static_cast<std::size_t>(l.callers);
        settings.http.kept_bytes_max = 0;
        settings.log_level = "warning";
        serving one{settings}, other{settings};
        l.prefix = way + '-' + skald::make_key() + '-';
        auto const with = [&l](char const* prefix, int requests) {
            return load{l.callers, requests, l.prefix + prefix};
        };
        measure(one, with("warm-", warm_up));
        show(way, "first, resting", measure(one, with("few-", l.requests)));
        // Their duplicates make it worth asking: from then on both processes do.
        measure(other, with("warm-", warm_up));
        std::this_thread::sleep_for(until_both_know);
        show(way, "first", measure(one, with("many-", l.requests)));
        show(way, "duplicate", measure(other, with("many-", l.requests)));
    }
    return 0;
}
catch (std::exception const& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
}
