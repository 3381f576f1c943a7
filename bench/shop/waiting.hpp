// Sagas that hold nothing for most of their life: they wait for a signal, for a time, or for a long job elsewhere.
#pragma once

#include <skald/skald.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace bench_waiting {

struct visit
{
    std::string id;
    std::int64_t due_ms{};  // of a timer: when it is over, since 1970
    std::string folder;     // of a job: where its other side writes
    int units{};            // of a job: seconds that it takes
    bool quiet{};           // of a job: one long request, without heartbeats
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(visit, id, due_ms, folder, units, quiet)

struct approval
{
    std::string by;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(approval, by)

struct result
{
    long pid{};  // of the process that called
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(result, pid)

namespace steps {
inline constexpr skald::pivot<visit> approve{"approve", "bench-waiting"};
inline constexpr skald::retriable<visit> approved{"approved", "bench-waiting"};
inline constexpr skald::retriable<visit> sleep{"sleep", "bench-waiting"};
inline constexpr skald::retriable<visit> woken{"woken", "bench-waiting"};
inline constexpr skald::pivot<visit> work{"work", "bench-waiting"};
}  // namespace steps

inline constexpr auto be_approved = skald::define("bench-approval", steps::approve, steps::approved);
inline constexpr auto be_woken = skald::define("bench-timer", steps::sleep, steps::woken);
inline constexpr auto be_worked_on = skald::define("bench-job", steps::work);

class waits_for_approval final : public skald::wait_step<visit, approval>
{
    std::chrono::milliseconds timeout(visit const&) const override { return std::chrono::hours{1}; }
    skald::outcome arrived(skald::step_context&, visit&, approval const&) const override { return skald::done(); }
    skald::outcome timed_out(skald::step_context&, visit&) const override { return skald::reject("nobody came"); }
};

class sleeps final : public skald::sleep_step<visit>
{
    std::chrono::sys_time<std::chrono::milliseconds> until(visit const& v) const override
    {
        return std::chrono::sys_time<std::chrono::milliseconds>{std::chrono::milliseconds{v.due_ms}};
    }
};

/// What comes after the wait: a row for each time that it runs. Nothing but the guard prevents a second one.
class notes : public skald::retriable_step<visit>, public skald::batch_step<visit>
{
    skald::forward_outcome execute(skald::step_context& ctx, visit& v) const override
    {
        ctx.sql("INSERT INTO passed (id) VALUES ($1)", v.id);
        return skald::done();
    }

    skald::batch_outcome execute_batch(skald::batch<visit>& all) const override
    {
        std::vector<std::string> ids;
        for (auto& one : all) ids.push_back(one.data.id);
        all.sql("INSERT INTO passed (id) SELECT jsonb_array_elements_text($1::jsonb)", nlohmann::json(ids).dump());
        return skald::all_done();
    }
};

/// Works for some time at another side, which is files: `journal`, a line for what each process did, and `effect`,
/// which that side creates once, however often it is asked.
class works final : public skald::external_step<visit, result>
{
    skald::outcome prepare(skald::step_context&, visit&) const override { return skald::done(); }

    result call(skald::call_context& ctx, visit const& v) const override
    {
        int done = ctx.checkpoint() ? ctx.checkpoint()->at("done").get<int>() : 0;
        write(v, "call", done);
        if (v.quiet) std::this_thread::sleep_for(std::chrono::seconds{v.units});
        while (!v.quiet && done < v.units) {
            std::this_thread::sleep_for(std::chrono::seconds{1});
            write(v, "unit", ++done);
            ctx.heartbeat(nlohmann::json{{"done", done}});
        }
        int const created = ::open((std::filesystem::path{v.folder} / "effect").c_str(), O_CREAT | O_EXCL, 0600);
        write(v, created >= 0 ? "effect" : "replay", done);
        if (created >= 0) ::close(created);
        return {::getpid()};
    }

    skald::probe<result> look(skald::call_context&, visit const& v) const override
    {
        write(v, "look", 0);
        if (std::filesystem::exists(std::filesystem::path{v.folder} / "effect")) return result{};
        return skald::did_not_happen();  // it acts once: a request that comes late is harmless
    }

    skald::outcome settle(skald::step_context& ctx, visit& v, result const&) const override
    {
        write(v, "settle", 0);
        ctx.sql("INSERT INTO passed (id) VALUES ($1)", v.id);
        return skald::done();
    }

    static void write(visit const& v, char const* what, int number)
    {
        auto const now = std::chrono::system_clock::now().time_since_epoch();
        std::ofstream{std::filesystem::path{v.folder} / "journal", std::ios::app}
            << what << ' ' << ::getpid() << ' ' << number << ' '
            << std::chrono::duration_cast<std::chrono::milliseconds>(now).count() << std::endl;
    }
};

/// `lease`: of the job.
inline skald::service waiting(std::string_view tables, std::chrono::seconds lease)
{
    skald::service s{"bench-waiting"};
    s.migrate("0001_waiting", tables);
    s.host(be_approved, steps::approve, waits_for_approval{}).host(be_approved, steps::approved, notes{});
    s.host(be_woken, steps::sleep, sleeps{}).host(be_woken, steps::woken, notes{});
    s.host(be_worked_on, steps::work, works{}, {.call = {.lease = lease}});
    return s;
}

}  // namespace bench_waiting
