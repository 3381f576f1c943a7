#include "support/simulation.hpp"

#include "support/settle.hpp"

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

}  // namespace

service::service(std::string n, memory::memory_transport& transport)
    : name{std::move(n)}, db{name}, store_{options()}, outbox_{options()}, publisher_{transport.open_publisher()},
      deliveries_{transport.subscribe({name, 100})}, executor_{name, store_, out_, log_, std::mt19937_64{1}},
      table_{200ms, {outbox_}}, relay_{{}, table_, *publisher_, stop_, log_, std::mt19937_64{1}}
{}

postgres::connection_options service::options() const
{
    postgres::connection_options o;
    o.url = db.url();
    o.lock_timeout = 200ms;  // what is locked in these tests stays locked
    return o;
}

service::running_lanes::running_lanes(service& of, std::size_t count, std::size_t batch_max,
                                      std::chrono::milliseconds patience)
    : work_{{.lanes = count, .batch_max = batch_max, .hang_after = patience},
            of.name,
            of.steps_,
            *of.deliveries_,
            of.log_,
            std::mt19937_64{1}}
{
    for (std::size_t n = 0; n < count; ++n)
        threads_.emplace_back([&of, this, n] {
            postgres::postgres_store store{of.options()};
            runtime::executor executor{of.name, store, of.out_, of.log_, std::mt19937_64{n}};
            runtime::lane{std::move(executor), work_, *of.deliveries_, stop_, of.log_}.run();
        });
}

service::running_lanes::~running_lanes()
{
    stop_.stop();
    for (auto& one : threads_) one.join();
}

std::size_t service::relay_due()
{
    return relay_.drain();
}

bool service::settle_one()
{
    for (auto const& d : deliveries_->take(1, 0ms)) {
        settle(d);
        deliveries_->ack(d.tag);
        return true;
    }
    return false;
}

void service::settle_on(runtime::executor& lane, ports::delivery const& d) const
{
    test::settle(lane, name, steps_, d);
}

std::vector<runtime::task> service::read(std::vector<ports::delivery> const& all) const
{
    std::vector<runtime::task> tasks;
    for (auto const& one : all) tasks.push_back(runtime::route(one, name, steps_));
    return tasks;
}

void service::settle_all(std::vector<ports::delivery> all)
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
        auto const result = executor_.run(next.tasks, next.how);
        work.finish(std::move(next), result);
    }
}

std::size_t service::settle_many(std::size_t max)
{
    auto const all = deliveries_->take(max, 0ms);
    settle_all(all);
    for (auto const& d : all) deliveries_->ack(d.tag);
    return all.size();
}

std::size_t service::settle_with(std::vector<ports::delivery> all)
{
    auto const waiting = deliveries_->take(100, 0ms);
    all.insert(all.end(), waiting.begin(), waiting.end());
    auto const count = all.size();
    settle_all(std::move(all));
    for (auto const& d : waiting) deliveries_->ack(d.tag);
    return count;
}

std::vector<ports::delivery> service::take_all()
{
    auto all = deliveries_->take(100, 0ms);
    for (auto const& d : all) deliveries_->ack(d.tag);
    return all;
}

runtime::executor service::executor_on(ports::store& store)
{
    return {name, store, out_, log_, std::mt19937_64{3}};
}

void service::settle_apart(ports::delivery const& d)
{
    auto apart = options();
    apart.lock_timeout = 10s;
    postgres::postgres_store store{apart};
    auto lane = executor_on(store);
    settle_on(lane, d);
}

simulation::simulation(std::vector<std::string> const& services) : home_{services.front()}
{
    for (auto const& name : services) services_.emplace(name, std::make_unique<service>(name, transport_));
}

void simulation::run()
{
    for (bool moved = true; moved;) {
        moved = false;
        for (auto& [name, s] : services_) {
            moved = s->relay_due() > 0 || moved;
            moved = s->settle_one() || moved;
        }
    }
}

ports::delivery simulation::delivery_of(core::message m, std::string problem)
{
    ports::delivery d;
    d.message = std::move(m);
    d.problem = std::move(problem);
    return d;
}

core::message simulation::last_sent(std::string const& type) const
{
    auto const sent = transport_.captured();
    for (auto it = sent.rbegin(); it != sent.rend(); ++it)
        if (it->type == type) return *it;
    FAIL("no message of type ", type, " was sent");
    return {};
}

std::string simulation::saga_status(std::string const& key)
{
    return home().db.one("SELECT status FROM skald.saga WHERE key = '" + key + "'");
}

std::string simulation::parked()
{
    std::string text;
    for (auto& [name, s] : services_) {
        auto const rows = s->db.rows("SELECT reason, count(*) FROM skald.parked GROUP BY 1 ORDER BY 1");
        if (!rows.empty()) text.append(text.empty() ? "" : "\n").append(name).append("|").append(rows);
    }
    return text;
}

}  // namespace skald::test
