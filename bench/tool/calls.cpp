#include "calls.hpp"

#include "bench_tool_sql.hpp"
#include "waiting_services.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

namespace skald_bench {
namespace {

using namespace std::chrono_literals;
using json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr auto calls_patience = 120s;

/// What a process wrote at the other side (shop/waiting.hpp).
struct journal_line
{
    std::string what;
    pid_t pid{};
    int number{};
    double at_ms{};
};

/// The other side of a job.
class other_side
{
public:
    other_side(bench const& b, std::string name) : folder_{fs::absolute(fs::path{b.chosen.logs} / std::move(name))}
    {
        fs::remove_all(folder_);
        fs::create_directories(folder_);
    }
    std::string folder() const { return folder_.string(); }

    std::vector<journal_line> journal() const
    {
        std::vector<journal_line> all;
        std::ifstream in{folder_ / "journal"};
        for (std::string line; std::getline(in, line);) {
            journal_line one;
            if (std::istringstream{line} >> one.what >> one.pid >> one.number >> one.at_ms) all.push_back(one);
        }
        return all;
    }

    std::int64_t count(std::string_view what) const { return std::ranges::count(journal(), what, &journal_line::what); }

    journal_line last(std::string_view what) const
    {
        for (auto const all = journal(); auto const& one : std::vector<journal_line>{all.rbegin(), all.rend()})
            if (one.what == what) return one;
        return {};
    }

private:
    fs::path folder_;
};

void start_job(waiting_services& w, std::string const& key, other_side const& there, int units, bool quiet)
{
    json const data{{"id", key}, {"due_ms", 0}, {"folder", there.folder()}, {"units", units}, {"quiet", quiet}};
    ask(w.database(), sql::start_job, key, data.dump());
}

std::size_t number_of(waiting_services& w, pid_t pid)
{
    for (std::size_t n = 0; n < w.size(); ++n)
        if (w.at(n).pid() == pid) return n;
    throw std::runtime_error{fmt::format("process {} is none of ours", pid)};
}

/// Waits until another process than `former` has taken up the job; returns how long that took.
double wait_for_take_over(waiting_services& w, other_side const& there, pid_t former, double since_ms)
{
    double took = 0;
    w.wait_for("the take-over", calls_patience, [&] {
        for (auto const& one : there.journal())
            if (one.pid != former && one.at_ms > since_ms) return (took = one.at_ms - since_ms) > 0;
        return false;
    });
    return took;
}

void check_ended_once(waiting_services& w, other_side const& there, std::string const& key)
{
    auto const met = ask(w.database(), sql::passed, key)[0];
    if (met[0].as<int>() != 1 || there.count("effect") != 1 || there.count("settle") != 1)
        throw std::runtime_error{fmt::format("wrong: the job has {} ends, {} effects, and was settled {} times",
                                             met[0].c_str(), there.count("effect"), there.count("settle"))};
}

bool is_completed(waiting_services& w, std::string const& key)
{
    return ask(w.database(), "SELECT count(*) FROM skald.saga WHERE key = $1 AND status = 'completed'", key)[0][0]
               .as<int>() == 1;
}

}  // namespace

void run_job(bench const& b, report& out)
{
    waiting_services w{b, 3};
    other_side const there{b, "job"};
    auto const units = b.chosen.job_seconds;
    start_job(w, "job-1", there, units, false);
    std::vector<double> took;
    std::vector<pid_t> killed;
    for (int const until : {units / 3, units * 2 / 3}) {
        w.wait_for("the job", std::chrono::seconds{units} + calls_patience,
                   [&] { return there.last("unit").number >= until; });
        auto const owner = there.last("unit").pid;
        w.at(number_of(w, owner)).kill();
        killed.push_back(owner);
        took.push_back(wait_for_take_over(w, there, owner, milliseconds_now()));
    }
    w.wait_for("the job", std::chrono::seconds{units} + calls_patience, [&] { return is_completed(w, "job-1"); });
    check_ended_once(w, there, "job-1");
    auto const repeated = there.count("unit") - units;
    // A unit that was done and not kept when its owner was killed is done again; no other is.
    if (repeated < 0 || repeated > static_cast<std::int64_t>(killed.size()))
        throw std::runtime_error{fmt::format("wrong: {} units were done twice", repeated)};
    out.say(fmt::format("a job of {} s, {} owners killed: 1 effect; taken over after {:.1f} and {:.1f} s (lease {} s); "
                        "units done twice: {}",
                        units, killed.size(), took[0] / 1'000.0, took[1] / 1'000.0, b.chosen.lease_seconds, repeated));
    out.add(json{{"label", "job"}, {"seconds", units}, {"take_over_ms", took}, {"repeated_units", repeated}});
    w.stop();
}

void run_stopped_owner(bench const& b, report& out)
{
    waiting_services w{b, 2};
    other_side const there{b, "stopped"};
    constexpr int request_seconds = 5;
    start_job(w, "stopped-1", there, request_seconds, true);
    w.wait_for("the call", calls_patience, [&] { return there.count("call") == 1; });
    auto const owner = there.last("call").pid;
    auto const n = number_of(w, owner);
    auto const stopped_at = milliseconds_now();
    w.at(n).kill(SIGSTOP);
    auto const took = wait_for_take_over(w, there, owner, stopped_at);
    w.wait_for("the other's end", calls_patience, [&] { return is_completed(w, "stopped-1"); });
    w.wait_for("the time for which it stands still", std::chrono::seconds{b.chosen.stopped_seconds} + calls_patience,
               [&] { return milliseconds_now() >= stopped_at + 1.0 * b.chosen.stopped_seconds * 1'000; });
    w.at(n).kill(SIGCONT);
    w.wait_for("the late end", calls_patience, [&] { return there.last("replay").pid == owner; });
    w.wait_for("the refusal of its late end", calls_patience, [&] { return w.at(n).has_logged("step.outdated"); });
    w.stop();
    check_ended_once(w, there, "stopped-1");
    out.say(fmt::format(
        "an owner stopped for {} s: taken over after {:.1f} s (lease {} s); its late end was refused, 1 effect",
        b.chosen.stopped_seconds, took / 1'000.0, b.chosen.lease_seconds));
    out.add(json{{"label", "stopped"}, {"seconds", b.chosen.stopped_seconds}, {"take_over_ms", took}});
}

}  // namespace skald_bench
