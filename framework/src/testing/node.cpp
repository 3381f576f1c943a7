#include "testing/node.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace skald::testing::inner {
namespace {

using namespace std::chrono_literals;

constexpr int tries_max = 20;

}  // namespace

node::node(std::string service, fault_plan& at, script& rules, watched_outbox::naming name)
    : name_{std::move(service)}, fault_plan_{at}, rules_{rules}, naming_{std::move(name)}
{}

void node::host(hosted what)
{
    if (hosts(what.definition, what.step))
        throw configuration_error{"step " + what.step + " of " + what.definition + " is hosted twice"};
    hosted_.push_back(std::move(what));
    host_all();
}

void node::host_all()
{
    process_.reset();
    steps_ = {};
    for (auto const& one : hosted_) {
        auto observed = one.as;
        observed.step = std::make_shared<observed_step>(one.step, one.as.step, rules_, fault_plan_);
        auto& attempts_max = observed.options.retry.attempts_max;
        attempts_max = std::min(attempts_max, attempts_max_);
        steps_.add(one.definition, one.step, std::move(observed));
    }
}

service_database& node::open(server& on)
{
    if (!database_) database_ = std::make_unique<service_database>(on, name_, migrations, given);
    return *database_;
}

void node::begin(memory::memory_transport& transport)
{
    bool const is_another = database_->rewind();
    if (is_another || !store_) {
        store_ = std::make_unique<watched_store>(
            database_->options(), fault_plan_,
            [this] {
                rules_.committed();
                wake();
            },
            [this](std::string const& step, std::string const& what) { rules_.left.emplace(step, what); });
        outbox_ = std::make_unique<watched_outbox>(database_->options(), fault_plan_, naming_);
        apart_.reset();
    }
    ahead_ = {};
    store_->set_clock(ahead_);
    host_all();
    start(transport);
}

void node::advance(std::chrono::milliseconds time)
{
    ahead_ += time;
    store_->set_clock(ahead_);
    database_->advance(time);
    wake();
}

void node::start(memory::memory_transport& transport)
{
    runtime::publish_options one_by_one;
    one_by_one.batch_max = 1;
    process_.reset();  // the one before loses its unacked deliveries first
    process_ = std::make_unique<stepped_process>(name_, steps_, *store_, *outbox_,
                                                 std::make_unique<watched_publisher>(transport, fault_plan_),
                                                 transport.subscribe({name_, take_max}), log_, one_by_one);
    woken_ = true;
}

void node::die(memory::memory_transport& transport)
{
    fault_plan_.raise();
    store_->die();
    outbox_->die();
    start(transport);
}

bool node::relay()
{
    if (!std::exchange(woken_, false)) return false;
    return process_->relay() > 0;
}

void node::process(ports::delivery const& d)
{
    auto const name = naming_(d.message);
    auto one = process_->route(d);
    for (int tries = 0;;) {
        fault_plan_.enter(name);
        rules_.pending.clear();
        auto const result = process_->executor().run({&one, 1});
        if (result.processed()) break;
        one.put_back(result.not_processed->why, result.not_processed->then, true);
        if (++tries == tries_max)
            throw std::runtime_error{"the delivery " + name + " could not be processed in " +
                                     std::to_string(tries_max) + " tries: " + result.not_processed->error};
    }
    process_->deliveries().ack(d.tag);
}

void node::process_apart(ports::delivery const& d)
{
    if (!apart_) {
        auto options = database_->options();
        options.lock_timeout = 10ms;  // any conflicting lock is held by this very thread
        apart_ = std::make_unique<postgres::postgres_store>(options);
    }
    auto one = process_->route(d);
    auto const result = process_->executor_on(*apart_).run({&one, 1});
    if (!result.processed())
        throw std::runtime_error{"a copy on another connection could not be processed: " + result.not_processed->error};
    wake();
}

}  // namespace skald::testing::inner
