#include "support/world.hpp"

#include <doctest/doctest.h>

#include <utility>

namespace skald::test {

using namespace std::chrono_literals;

service::service(std::string n, memory::memory_transport& transport)
    : name{std::move(n)}, db{name}, store_{options()}, outbox_{options()}, publisher_{transport.open_publisher()},
      deliveries_{transport.subscribe(name, 100)}, executor_{name, steps_, store_, out_, log_, std::mt19937_64{1}},
      relay_{{}, {outbox_}, *publisher_, out_, stop_, log_, std::mt19937_64{1}}
{}

postgres::connection_options service::options() const
{
    postgres::connection_options o;
    o.url = db.url();
    o.lock_timeout = 200ms;  // what is locked in these tests stays locked
    return o;
}

service::running_lanes::running_lanes(service& of, std::size_t count, std::size_t batch_max)
    : limits_{of.steps_.lane_limits()}
{
    for (std::size_t n = 0; n < count; ++n)
        threads_.emplace_back([&of, this, n, batch_max] {
            postgres::postgres_store store{of.options()};
            runtime::executor executor{of.name, of.steps_, store, of.out_, of.log_, std::mt19937_64{n}};
            runtime::lane{std::move(executor), *of.deliveries_, batch_max, limits_, stop_, of.log_, std::mt19937_64{n}}
                .run();
        });
}

service::running_lanes::~running_lanes()
{
    stop_.stop();
    for (auto& one : threads_) one.join();
}

std::size_t service::relay_due()
{
    return relay_.move_due();
}

bool service::settle_one()
{
    for (auto const& d : deliveries_->take(1, 0ms)) {
        executor_.settle(d);
        deliveries_->ack(d.tag);
        return true;
    }
    return false;
}

std::size_t service::settle_many(std::size_t max)
{
    unsettled_ = deliveries_->take(max, 0ms);
    auto const count = unsettled_.size();
    auto const settled = executor_.settle_batch(unsettled_);
    for (std::size_t n = 0; n < count; ++n)
        if (settled[n]) deliveries_->ack(unsettled_[n].tag);
    std::vector<ports::delivery> left;
    for (std::size_t n = 0; n < count; ++n)
        if (!settled[n]) left.push_back(std::move(unsettled_[n]));
    unsettled_ = std::move(left);
    settle_again();
    return count;
}

std::size_t service::settle_with(std::vector<ports::delivery> all)
{
    auto const waiting = deliveries_->take(100, 0ms);
    all.insert(all.end(), waiting.begin(), waiting.end());
    auto const settled = executor_.settle_batch(all);
    for (std::size_t n = 0; n < all.size(); ++n)
        if (!settled[n]) executor_.settle(all[n]);
    for (auto const& d : waiting) deliveries_->ack(d.tag);
    return all.size();
}

void service::settle_again()
{
    for (auto const& d : std::exchange(unsettled_, {})) {
        executor_.settle(d);
        deliveries_->ack(d.tag);
    }
}

std::vector<ports::delivery> service::take_all()
{
    auto all = deliveries_->take(100, 0ms);
    for (auto const& d : all) deliveries_->ack(d.tag);
    return all;
}

runtime::executor service::executor_on(ports::store& store)
{
    return {name, steps_, store, out_, log_, std::mt19937_64{3}};
}

void service::settle_apart(ports::delivery const& d)
{
    auto apart = options();
    apart.lock_timeout = 10s;
    postgres::postgres_store store{apart};
    runtime::executor{name, steps_, store, out_, log_, std::mt19937_64{2}}.settle(d);
}

world::world(std::vector<std::string> const& services) : home_{services.front()}
{
    for (auto const& name : services) services_.emplace(name, std::make_unique<service>(name, transport_));
}

void world::run()
{
    for (bool moved = true; moved;) {
        moved = false;
        for (auto& [name, s] : services_) {
            moved = s->relay_due() > 0 || moved;
            moved = s->settle_one() || moved;
        }
    }
}

ports::delivery world::delivery_of(core::message m, std::string problem)
{
    ports::delivery d;
    d.message = std::move(m);
    d.problem = std::move(problem);
    return d;
}

core::message world::last_sent(std::string const& type) const
{
    auto const sent = transport_.captured();
    for (auto it = sent.rbegin(); it != sent.rend(); ++it)
        if (it->type == type) return *it;
    FAIL("no message of type ", type, " was sent");
    return {};
}

std::string world::saga_status(std::string const& key)
{
    return home().db.one("SELECT status FROM skald.saga WHERE key = '" + key + "'");
}

std::string world::parked()
{
    std::string text;
    for (auto& [name, s] : services_) {
        auto const rows = s->db.rows("SELECT reason, count(*) FROM skald.parked GROUP BY 1 ORDER BY 1");
        if (!rows.empty()) text.append(text.empty() ? "" : "\n").append(name).append("|").append(rows);
    }
    return text;
}

}  // namespace skald::test
