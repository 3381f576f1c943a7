#include "testing/node.hpp"

#include "worker/service_parts.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace skald::testing::inner {
namespace {

using namespace std::chrono_literals;

constexpr int tries_max = 20;

// A crash may use up an attempt of a call: nobody knows whether it was made. A schedule has no more than two.
constexpr int crashes_max = 2;

}  // namespace

node::node(std::string service, fault_plan& at, script& rules, watched_outbox::naming name)
    : name_{std::move(service)}, fault_plan_{at}, rules_{rules}, naming_{std::move(name)}
{}

void node::host(hosted what)
{
    for (auto const& one : hosted_)
        if (one.definition == what.definition && one.step == what.step && one.as.version == what.as.version)
            throw configuration_error{"step " + what.step + " of " + what.definition + " is hosted twice"};
    hosted_.push_back(std::move(what));
    host_all();
}

void node::host_all()
{
    process_.reset();
    steps_ = runtime::registry{config{}.deploy_wait};
    waits_.clear();
    for (auto const& one : hosted_) steps_.add(one.definition, one.step, observed(one));
}

// The memory of a process ends with it.
void node::make_anew()
{
    if (makers.empty()) return;
    for (auto const& make : makers) {
        auto made = make();
        for (auto& one : made.parts().steps) {
            auto const known = std::ranges::find_if(hosted_, [&one](hosted const& k) {
                return k.definition == one.definition && k.step == one.name && k.as.version == one.hosted.version;
            });
            if (known != hosted_.end()) known->as = std::move(one.hosted);
        }
    }
    host_all();
}

runtime::registered_step node::observed(hosted const& one)
{
    auto step = one.as;
    step.step = std::make_shared<observed_step>(one.step, one.as.step, rules_, fault_plan_);
    bool makes_calls = false;
    for (bool const is_forward : {true, false}) {
        auto const* const work = step.step->external(is_forward);
        if (work == nullptr) continue;
        waits_[one.step + (is_forward ? "" : ".compensate")] =
            work->is_call() ? ports::started_kind::call : ports::started_kind::wait;
        makes_calls = makes_calls || work->is_call();
    }
    auto& attempts_max = step.options.retry.attempts_max;
    bool const is_limited = attempts_max_ != std::numeric_limits<int>::max();
    attempts_max = is_limited && makes_calls ? attempts_max_ + crashes_max : std::min(attempts_max, attempts_max_);
    return step;
}

std::optional<ports::started_kind> node::started_kind_of(std::string_view definition, std::string_view step,
                                                         bool is_forward) const
{
    auto const* const found = steps_.find(definition, step);
    auto const* const work = found == nullptr ? nullptr : found->step->external(is_forward);
    if (work == nullptr) return {};
    return work->is_call() ? ports::started_kind::call : ports::started_kind::wait;
}

std::vector<std::string> node::calls() const
{
    std::vector<std::string> names;
    for (auto const& [name, kind] : waits_)
        if (kind == ports::started_kind::call) names.push_back(name);
    return names;
}

service_database& node::open(server& on)
{
    if (!database_) database_ = std::make_unique<service_database>(on, name_, migrations, given);
    return *database_;
}

// As a process does when it starts: the database then knows which steps never wait for a signal.
void node::record_hosted()
{
    std::vector<std::string> steps;
    std::vector<bool> take_signals;
    for (auto const& one : hosted_) {
        if (one.as.handles) continue;
        auto const* const work = one.as.step->external(true);
        steps.push_back(one.step);
        take_signals.push_back(work != nullptr && work->takes_signal());
    }
    database_->record_hosted(steps, take_signals);
}

void node::begin(memory::memory_transport& transport)
{
    bool const is_another = database_->rewind();
    if (is_another || !store_) {
        store_ = std::make_unique<watched_store>(
            *database_, fault_plan_,
            [this] {
                rules_.committed();
                wake();
            },
            [this](std::string const& step, std::string const& what) { rules_.left.emplace(step, what); });
        outbox_ = std::make_unique<watched_outbox>(database_->options(), fault_plan_, naming_);
        started_ = std::make_unique<postgres::postgres_started>(database_->options());
        apart_.reset();
    }
    ahead_ = {};
    store_->set_clock(ahead_);
    host_all();
    record_hosted();
    start(transport);
    woken_ = database_->starts_with_messages();
}

void node::advance(std::chrono::milliseconds time)
{
    ahead_ += time;
    store_->set_clock(ahead_);
    database_->advance(time);
    wake();
}

std::vector<ports::handler_queue> node::handler_queues() const
{
    std::vector<ports::handler_queue> all;
    for (auto const& one : hosted_)
        if (one.as.handles) all.push_back({one.step, take_max, one.as.handles->bind});
    return all;
}

void node::start(memory::memory_transport& transport)
{
    runtime::publish_options one_by_one;
    one_by_one.batch_max = 1;
    process_.reset();  // the one before loses its unacked deliveries first
    process_ = std::make_unique<stepped_process>(
        name_, steps_, *store_, *outbox_, std::make_unique<watched_publisher>(transport, fault_plan_),
        transport.subscribe({name_, take_max, {}, handler_queues()}), log_, one_by_one);
    woken_ = true;
}

void node::die(memory::memory_transport& transport)
{
    fault_plan_.raise();
    store_->die();
    outbox_->die();
    make_anew();
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
        rules_.pending = {};
        auto const result = process_->executor().run({&one, 1});
        if (result.processed()) break;
        one.put_back(result.not_processed->why, result.not_processed->then, true);
        if (++tries == tries_max)
            throw std::runtime_error{"the delivery " + name + " could not be processed in " +
                                     std::to_string(tries_max) + " tries: " + result.not_processed->error};
    }
    process_->deliveries().ack(d.tag);
}

bool node::go_on()
{
    return std::ranges::any_of(std::array{ports::started_kind::call, ports::started_kind::wait}, [this](auto kind) {
        bool const is_known = std::ranges::any_of(waits_, [&](auto const& one) { return one.second == kind; });
        return is_known && process_->go_on(*started_, kind, this);
    });
}

void node::enters(std::string const& part)
{
    fault_plan_.enter(part);
    rules_.pending = {};
}

// The runtime takes whatever a call throws for the call's own error; also a crash.
void node::called()
{
    if (fault_plan_.is_dead()) throw crashed{};
    if (!fault_plan_.loses(crash_point::lease_lost)) return;
    database_->end_leases();
    process_->go_on(*started_, ports::started_kind::call, this);
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
