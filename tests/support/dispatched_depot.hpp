// A depot with synthetic deliveries, and the dispatcher that hands them out.
#pragma once

#include "runtime/dispatcher.hpp"

#include <skald/detail/hosted_step.hpp>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace skald::test {

using namespace std::chrono_literals;
using runtime::dispatcher;
using runtime::failure;
using runtime::reaction;

struct parcel
{
    std::string id;
    std::string shelf;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(parcel, id, shelf)

struct no_step final : compensatable_step<parcel>
{
    outcome execute(step_context&, parcel&) const override { return done(); }
    void compensate(step_context&, parcel&) const override {}
};

class list_of_deliveries final : public ports::subscription
{
public:
    std::vector<ports::delivery> take(std::size_t max, std::chrono::milliseconds wait) override
    {
        std::unique_lock lock{mutex};
        arrived.wait_for(lock, wait, [&] { return !all.empty() || stopped; });
        std::vector<ports::delivery> taken;
        for (; !all.empty() && taken.size() < max; all.pop_front()) taken.push_back(std::move(all.front()));
        return taken;
    }
    void ack(ports::delivery_tag) override {}
    void requeue(ports::delivery_tag tag) override { sent_back.push_back(tag.number); }
    void stop() override {}
    bool available() const override { return true; }
    std::string last_error() const override { return {}; }

    void add(ports::delivery d)
    {
        {
            std::lock_guard const lock{mutex};
            all.push_back(std::move(d));
        }
        arrived.notify_one();
    }

    std::mutex mutex;
    std::condition_variable arrived;
    std::deque<ports::delivery> all;
    std::vector<std::uint64_t> sent_back;
    bool stopped{};
};

inline constexpr compensatable<parcel> pack{"pack", "depot"}, weigh{"weigh", "depot"};
inline constexpr auto move_house = define("move-house", pack, weigh);

/// A depot with synthetic deliveries.
struct dispatched_depot
{
    explicit dispatched_depot(runtime::dispatcher_options options = {4, 32, 32}, step_options of_pack = {},
                              step_options of_weigh = {}, std::uint64_t seed = 1)
    {
        host("pack", of_pack);
        host("weigh", of_weigh);
        work.emplace(options, "depot", steps, arrived, log, std::mt19937_64{seed});
    }

    void host(std::string const& step, step_options how)
    {
        steps.add("move-house", step,
                  {std::make_shared<detail::typed_step<parcel, no_step>>(no_step{}), std::move(how),
                   step_kind::compensatable, 1});
    }

    void arrive(std::string const& step, std::string const& key, std::string const& shelf = "a",
                core::direction direction = core::direction::forward, std::uint64_t generation = 0, int attempt = 1)
    {
        core::envelope e;
        e.saga = {"", key};
        e.definition = "move-house";
        e.itinerary = core::make_itinerary(move_house.steps);
        e.itinerary.position = {direction, step == "pack" ? 0U : 1U};
        e.home = "depot";
        e.attempt = attempt;
        ports::delivery d;
        d.message = core::write_message(e, nlohmann::json(parcel{key, shelf}).dump());
        d.tag = {generation, ++number, 1};
        d.returns = returns;
        arrived.add(std::move(d));
    }

    dispatcher::group take() { return work->take(0ms); }

    void finished(dispatcher::group&& g) { work->finish(std::move(g), {}); }

    std::vector<ports::contention> broken(dispatcher::group&& g, failure why, reaction then)
    {
        runtime::run_result result;
        result.not_processed = {why, then, "as planned"};
        return work->finish(std::move(g), result);
    }

    std::uint64_t number{};
    int returns{};  // for what arrives from now on
    runtime::registry steps;
    list_of_deliveries arrived;
    core::silent_logger log;
    std::optional<dispatcher> work;
};

inline std::string keys(dispatcher::group const& g)
{
    std::string text;
    for (auto const& t : g.tasks) text += (text.empty() ? "" : " ") + t.step()->key().text();
    return text;
}

}  // namespace skald::test
