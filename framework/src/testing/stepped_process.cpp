#include "testing/stepped_process.hpp"

#include "runtime/started_work.hpp"

#include <chrono>
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
      deliveries_{std::move(deliveries)}, executor_{service_, store, out_, log_, std::mt19937_64{1}},
      table_{200ms, {outbox}}, relay_{publishing, table_, *publisher_, stop_, log_, std::mt19937_64{1}}
{}

namespace {

/// A call that nothing stops.
class only_owner final : public skald::detail::call_owner
{
public:
    only_owner(ports::started_steps& table, ports::started_id id) : table_{table}, id_{std::move(id)} {}

    void heartbeat(std::optional<nlohmann::json> const& checkpoint) override
    {
        ports::started_steps::held const now{id_, checkpoint ? checkpoint->dump() : ""};
        auto const met = table_.renew({&now, 1}).front();
        is_stopped_ = !met.is_ours || (!met.command.empty() && met.command != "resume");
        if (is_stopped_) throw call_stopped{"the call is somebody else's, or is to end"};
    }
    bool is_stopped() const noexcept override { return is_stopped_; }

private:
    ports::started_steps& table_;
    ports::started_id id_;
    bool is_stopped_{};
};

}  // namespace

bool stepped_process::go_on(ports::started_steps& table, ports::started_kind kind)
{
    std::vector<std::string> dependencies{""};
    steps_.for_each([&](auto const&, auto const&, runtime::registered_step const& one) {
        if (kind == ports::started_kind::call) dependencies.push_back(one.options.call.dependency);
    });
    std::vector<ports::started_steps::taken> rows;
    for (auto const& name : dependencies)
        if (rows.empty()) rows = table.take("the kit", kind, name, 1);
    if (rows.empty()) return false;
    auto const id = rows.front().id;
    auto step = runtime::recognize(std::move(rows.front()), service_, steps_);
    if (!step) throw std::logic_error{"a started step of " + id.saga.key + " that no service hosts: " + id.step};
    only_owner owner{table, id};
    auto next = runtime::decide(*step);
    if (std::holds_alternative<runtime::make_call>(next))
        next = runtime::after_call(*step, runtime::run_call(*step, owner), false, random_);
    else if (std::holds_alternative<runtime::take_look>(next))
        next = runtime::after_look(*step, runtime::run_look(*step, owner), random_);
    if (auto const* const release = std::get_if<ports::started_release>(&next)) {
        table.release(*release);
        return true;
    }
    step->delivery.second = std::get<runtime::second_transaction>(std::move(next));
    auto const result = executor_.run({&step->delivery, 1});
    if (!result.processed()) throw std::runtime_error{result.not_processed->error};
    return true;
}

}  // namespace skald::testing::inner
