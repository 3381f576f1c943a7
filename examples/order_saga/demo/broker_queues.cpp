#include "queues.hpp"

#include <fmt/format.h>

#include "rig/broker.hpp"

namespace order_demo {
namespace {

using namespace std::chrono_literals;

constexpr int moment_max_ms = 2'000;

std::optional<std::chrono::milliseconds> held_back_for(int /*copy*/, random_source& random)
{
    switch (pick(random, 1, 3)) {
    case 1: return 0ms;
    case 2: return std::chrono::milliseconds{pick(random, 1, moment_max_ms)};
    default: return std::nullopt;
    }
}

class queues_of_a_broker final : public queues
{
public:
    explicit queues_of_a_broker(std::string url) : url_{std::move(url)}, observer_{url_} {}

    std::optional<state> look_at(std::size_t service) override
    {
        auto const seen = observer_.look_at(fmt::format("skald.{}", service_names[service]));
        if (!seen) return std::nullopt;
        return state{seen->ready, seen->consumers};
    }

    void copy_everything(std::uint64_t seed) override
    {
        skald::tools::duplicator_options copies;
        copies.broker_url = url_;
        copies.services.assign(service_names.begin(), service_names.end());
        copies.times = 1;
        copies.delay = held_back_for;
        copies.seed = seed;
        duplicator_.emplace(std::move(copies));
    }

    void check() override
    {
        if (duplicator_) duplicator_->check();
    }
    void hurry() override { duplicator_->hurry(); }
    skald::tools::duplicated copied() override
    {
        return duplicator_ ? duplicator_->so_far() : skald::tools::duplicated{};
    }

    std::map<std::string, std::string> variables() const override { return {{"AMQP_URL", url_}}; }

private:
    std::string url_;
    broker observer_;
    std::optional<skald::tools::duplicator> duplicator_;  // once there are queues to duplicate
};

}  // namespace

std::unique_ptr<queues> broker_queues(options const& chosen)
{
    return std::make_unique<queues_of_a_broker>(chosen.servers.broker);
}

}  // namespace order_demo
