#include "testing/stepped_process.hpp"

#include "runtime/started_work.hpp"

#include <chrono>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace skald::testing::inner {

using namespace std::chrono_literals;

stepped_process::stepped_process(std::string service, runtime::registry const& steps, ports::store& store,
                                 ports::outbox& outbox, std::unique_ptr<ports::publisher> publisher,
                                 std::unique_ptr<ports::subscription> deliveries, core::logger& log,
                                 runtime::publish_options const& publishing)
    : service_{std::move(service)}, steps_{steps}, log_{log}, publisher_{std::move(publisher)},
      deliveries_{std::move(deliveries)}, out_{{.bodies = {.service = service_}}}, executor_{service_, store, out_,
                                                                                             log_, std::mt19937_64{1}},
      table_{200ms, {outbox}}, relay_{publishing, table_, *publisher_, stop_, log_, std::mt19937_64{1}}
{}

namespace {

/// A call, and the one that has it.
class only_owner final : public skald::detail::call_owner
{
public:
    only_owner(ports::started_steps& table, runtime::started_step const& step) : table_{table}, step_{step} {}

    void heartbeat(std::optional<nlohmann::json> const& checkpoint) override
    {
        ports::started_steps::held const now{step_.row.id, checkpoint ? checkpoint->dump() : ""};
        auto const met = table_.renew({&now, 1}).front();
        is_stopped_ = !met.is_ours || runtime::ends_call(step_, met.command);
        if (is_stopped_) throw call_stopped{"the call is somebody else's, or is to end"};
    }
    bool is_stopped() const noexcept override { return is_stopped_; }

private:
    ports::started_steps& table_;
    runtime::started_step const& step_;
    bool is_stopped_{};
};

std::set<std::string> dependencies_of(runtime::registry const& steps, ports::started_kind kind)
{
    std::set<std::string> names{""};
    if (kind == ports::started_kind::call)
        steps.for_each([&](auto const&, auto const&, runtime::registered_step const& one) {
            names.insert(one.options.call.dependency);
        });
    return names;
}

std::string transaction_of(runtime::started_step const& step, runtime::second_transaction const& second)
{
    if (std::holds_alternative<runtime::postponed>(second.end)) return ".call";
    auto const* const answer = std::get_if<runtime::second_transaction::answer>(&second.end);
    if (answer == nullptr) return ".abandon";
    if (step.row.kind == ports::started_kind::call) return ".settle";
    return answer->json ? ".arrived" : ".timed_out";
}

}  // namespace

bool stepped_process::go_on(ports::started_steps& table, ports::started_kind kind, part_listener* listener)
{
    std::vector<ports::started_steps::taken> rows;
    for (auto const& name : dependencies_of(steps_, kind))
        if (rows.empty()) rows = table.take("the kit", kind, name, 1);
    if (rows.empty()) return false;
    auto const id = rows.front().id;
    auto step = runtime::recognize(std::move(rows.front()), service_, steps_);
    if (!step) throw std::logic_error{"a started step of " + id.saga.key + " that no service hosts: " + id.step};
    auto const enters = [&](std::string const& part) {
        if (listener != nullptr) listener->enters(id.step + part);
    };
    only_owner owner{table, *step};
    auto next = runtime::decide(*step);
    if (std::holds_alternative<runtime::make_call>(next)) {
        enters(".call");
        auto const met = runtime::run_call(*step, owner);
        if (listener != nullptr) listener->called();
        next = runtime::after_call(*step, met, false, random_);
    }
    else if (std::holds_alternative<runtime::take_look>(next)) {
        enters(".look");
        next = runtime::after_look(*step, runtime::run_look(*step, owner), random_);
    }
    if (auto const* const release = std::get_if<ports::started_release>(&next)) {
        table.release(*release);
        return true;
    }
    step->delivery.second = std::get<runtime::second_transaction>(std::move(next));
    record(step->delivery, listener, id.step + transaction_of(*step, *step->delivery.second));
    return true;
}

// Until it is recorded, or is somebody else's.
void stepped_process::record(runtime::task& one, part_listener* listener, std::string const& part)
{
    constexpr int tries_max = 20;
    for (int tries = 1;; ++tries) {
        if (listener != nullptr) listener->enters(part);
        auto const result = executor_.run({&one, 1});
        if (result.processed()) return;
        one.put_back(result.not_processed->why, result.not_processed->then, true);
        if (tries == tries_max)
            throw std::runtime_error{part + " could not be recorded in " + std::to_string(tries_max) +
                                     " tries: " + result.not_processed->error};
    }
}

}  // namespace skald::testing::inner
