#include "support/stepped_services.hpp"

#include "runtime/lane.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

namespace skald::test {

using namespace std::chrono_literals;

namespace {

/// Deliveries that are there already, and no others.
class handful final : public ports::subscription
{
public:
    explicit handful(std::vector<ports::delivery> all) : all_{std::move(all)} {}
    std::vector<ports::delivery> take(std::size_t max, std::chrono::milliseconds) override
    {
        auto const end = all_.begin() + static_cast<std::ptrdiff_t>(std::min(max, all_.size()));
        std::vector<ports::delivery> taken{all_.begin(), end};
        all_.erase(all_.begin(), end);
        return taken;
    }
    void ack(ports::delivery_tag) override {}
    void requeue(ports::delivery_tag) override {}
    void stop() override {}
    bool available() const override { return true; }
    std::string last_error() const override { return {}; }

private:
    std::vector<ports::delivery> all_;
};

constexpr std::size_t all_at_once = 64;
constexpr std::size_t waiting_max = 100;
constexpr auto hasty = 200ms;  // what is locked in these tests stays locked

}  // namespace

stepped_service::stepped_service(std::string n, memory::memory_transport& transport)
    : name{std::move(n)}, db{name}, store_{options(hasty)}, outbox_{options(hasty)}, started_{options(hasty)},
      process_{name, steps_, store_, outbox_, transport.open_publisher(), transport.subscribe({name, waiting_max}),
               log_}
{}

postgres::connection_options stepped_service::options(std::chrono::milliseconds lock_timeout) const
{
    return {.url = db.url(), .lock_timeout = lock_timeout};
}

void stepped_service::record(runtime::task one)
{
    auto const result = process_.executor().run({&one, 1});
    if (!result.processed()) throw not_processed{result.not_processed->why, result.not_processed->error};
}

void stepped_service::make_started_due() const
{
    db.run("UPDATE skald.started SET due_at = clock_timestamp(), until = least(until, clock_timestamp())");
}

bool stepped_service::process_one()
{
    for (auto const& d : process_.deliveries().take(1, 0ms)) {
        process(d);
        process_.deliveries().ack(d.tag);
        return true;
    }
    return false;
}

void stepped_service::process_on(runtime::executor& lane, ports::delivery const& d) const
{
    auto one = process_.route(d);
    auto const result = lane.run({&one, 1});
    if (!result.processed()) throw not_processed{result.not_processed->why, result.not_processed->error};
}

void stepped_service::process_apart(ports::delivery const& d)
{
    postgres::postgres_store store{options(10s)};
    auto lane = executor_on(store);
    process_on(lane, d);
}

std::vector<runtime::task> stepped_service::route(std::vector<ports::delivery> const& all) const
{
    std::vector<runtime::task> tasks;
    for (auto const& one : all) tasks.push_back(process_.route(one));
    return tasks;
}

void stepped_service::process_together(std::vector<ports::delivery> all)
{
    for (auto& one : all) one.tag.generation = 1;  // messages that a test makes count as from the same connection
    handful arrived{std::move(all)};
    runtime::dispatcher work{{.lanes = 1, .batch_max = all_at_once, .batch_first = all_at_once},
                             name,
                             steps_,
                             arrived,
                             log_,
                             std::mt19937_64{1}};
    for (auto next = work.take(5s); !next.tasks.empty(); next = work.take(5s)) {
        auto const result = process_.executor().run(next.tasks, next.how);
        work.finish(std::move(next), result);
    }
}

std::size_t stepped_service::process_all(std::size_t max)
{
    auto const all = process_.deliveries().take(max, 0ms);
    process_together(all);
    for (auto const& d : all) process_.deliveries().ack(d.tag);
    return all.size();
}

std::size_t stepped_service::process_all_with(std::vector<ports::delivery> all)
{
    auto const waiting = take_all();
    all.insert(all.end(), waiting.begin(), waiting.end());
    auto const count = all.size();
    process_together(std::move(all));
    return count;
}

std::vector<ports::delivery> stepped_service::take_all()
{
    auto all = process_.deliveries().take(waiting_max, 0ms);
    for (auto const& d : all) process_.deliveries().ack(d.tag);
    return all;
}

running_lanes::running_lanes(stepped_service& of, std::size_t count, std::size_t batch_max,
                             std::chrono::milliseconds patience)
    : work_{{.lanes = count, .batch_max = batch_max, .hang_after = patience},
            of.name,
            of.steps_,
            of.process_.deliveries(),
            of.log_,
            std::mt19937_64{1}}
{
    for (std::size_t n = 0; n < count; ++n)
        threads_.emplace_back([&of, this, n] {
            postgres::postgres_store store{of.options(hasty)};
            runtime::lane{of.process_.executor_on(store, n), work_, of.process_.deliveries(), stop_, of.log_}.run();
        });
}

running_lanes::~running_lanes()
{
    stop_.stop();
    for (auto& one : threads_) one.join();
}

running_calls::running_calls(stepped_service& of, std::map<std::string, dependency_limits> const& limits,
                             std::size_t calls)
    : table_{of.options(10s)}, heartbeats_{of.options(10s)}, loop_{{.owner = "a process", .calls = calls, .poll = 20ms},
                                                                   of.name,
                                                                   of.steps_,
                                                                   limits,
                                                                   table_,
                                                                   heartbeats_,
                                                                   of.log_}
{
    threads_.emplace_back([this] { loop_.run(); });
    for (std::size_t n = 0; n < calls; ++n) threads_.emplace_back([this] { loop_.run_calls(); });
    threads_.emplace_back([this, &of] {
        postgres::postgres_store store{of.options(10s)};
        auto executor = of.process_.executor_on(store, 7);
        loop_.run_settles(executor);
    });
}

running_calls::~running_calls()
{
    loop_.stop();
    for (auto& one : threads_) one.join();
}

stepped_services::stepped_services(std::vector<std::string> const& names) : home_{names.front()}
{
    for (auto const& name : names) services_.emplace(name, std::make_unique<stepped_service>(name, transport_));
}

void stepped_services::run()
{
    for (bool moved = true; moved;) {
        moved = false;
        for (auto& [name, s] : services_) {
            moved = s->relay_due() > 0 || moved;
            moved = s->process_one() || moved;
        }
    }
}

core::message stepped_services::last_sent(std::string const& type) const
{
    auto const sent = transport_.captured();
    for (auto it = sent.rbegin(); it != sent.rend(); ++it)
        if (it->type == type) return *it;
    FAIL("no message of type ", type, " was sent");
    return {};
}

std::string stepped_services::saga_status(std::string const& key)
{
    return home().db.one("SELECT status FROM skald.saga WHERE key = '" + key + "'");
}

std::string stepped_services::parked()
{
    std::string text;
    for (auto& [name, s] : services_) {
        auto const rows = s->db.rows("SELECT reason, count(*) FROM skald.parked GROUP BY 1 ORDER BY 1");
        if (!rows.empty()) text.append(text.empty() ? "" : "\n").append(name).append("|").append(rows);
    }
    return text;
}

}  // namespace skald::test
