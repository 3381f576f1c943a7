#include "rig/findings.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

namespace skald::rig {
namespace {

constexpr std::chrono::milliseconds look_again_after{10};

}  // namespace

finding found(std::string name, std::vector<std::string> const& offenders)
{
    auto const shown = std::min<std::size_t>(offenders.size(), examples_max);
    return {std::move(name),
            static_cast<std::int64_t>(offenders.size()),
            {offenders.begin(), offenders.begin() + static_cast<std::ptrdiff_t>(shown)}};
}

std::vector<finding> found_by_clients(order_plan const& plan, std::vector<order_record> const& records)
{
    std::vector<std::string> never_accepted;
    std::vector<std::string> answered_wrongly;
    for (std::size_t i = 0; i < records.size(); ++i) {
        auto const& key = plan.orders[i].key;
        if (!records[i].accepted) never_accepted.push_back(fmt::format("{}: {}", key, records[i].last_refusal));
        if (!records[i].wrong.empty()) answered_wrongly.push_back(fmt::format("{}: {}", key, records[i].wrong));
    }
    return {found("orders never accepted", never_accepted), found("wrong answers", answered_wrongly)};
}

finding end_in_order(std::vector<std::unique_ptr<process>> const& services, signals const& interruptions,
                     std::chrono::seconds patience)
{
    for (auto const& service : services) service->kill(SIGTERM);
    std::vector<std::string> offenders;
    auto const until = std::chrono::steady_clock::now() + patience;
    for (auto const& service : services) {
        auto how = service->ended();
        for (; !how && std::chrono::steady_clock::now() < until; how = service->ended())
            interruptions.wait_for(look_again_after);
        if (!how || how->code != 0)
            offenders.push_back(
                fmt::format("{} service: {}", service->name(),
                            how ? in_words(*how) : fmt::format("still there after {} s", patience.count())));
        service->kill();
    }
    return found("services that did not end in order", offenders);
}

}  // namespace skald::rig
