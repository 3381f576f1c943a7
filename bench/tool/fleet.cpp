#include "fleet.hpp"

#include "broker.hpp"
#include "http_client.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace skald_bench {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto start_patience = 60s;
constexpr auto stop_patience = 30s;

bool is_ready(std::uint16_t port)
try {
    return order_demo::http_client{port, 2s}.ask({"GET", "/readyz", {}, ""}).status == 200;
}
catch (order_demo::http_error const&) {
    return false;
}

}  // namespace

std::string name_of(implementation who)
{
    return who == implementation::framework ? "framework" : "floor";
}

fleet::fleet(options const& chosen, order_demo::signals const& interruptions, world const& databases,
             implementation who, bool tcp, std::vector<std::size_t> const& services)
    : interruptions_{interruptions}, who_{who}, tcp_{tcp}, http_port_{order_demo::find_free_port()}
{
    for (auto const service : services) start(chosen, databases, service);
    order_demo::broker observer{chosen.broker_url};
    wait_for("starting the services", start_patience, 20ms, [&] {
        bool const consuming = std::ranges::all_of(services, [&](std::size_t service) {
            auto const queue = observer.look_at(fmt::format("skald.bench-{}", service_names.at(service)));
            return queue && queue->consumers > 0;
        });
        return consuming && (who_ == implementation::floor || services.front() != orders || is_ready(http_port_));
    });
}

void fleet::start(options const& chosen, world const& databases, std::size_t service)
{
    order_demo::service_settings one;
    one.name = fmt::format("{} {}", name_of(who_), service_names.at(service));
    one.arguments = {service_names.at(service)};
    if (chosen.each) one.arguments.emplace_back("--each");
    one.environment = {"DATABASE_URL=" + databases.url(service, tcp_), "AMQP_URL=" + chosen.broker_url};
    one.log = fmt::format("{}/{}-{}.log", chosen.logs, name_of(who_), service_names.at(service));
    if (who_ == implementation::framework) {
        one.program = chosen.programs / "skald-bench-service";
        if (service == orders)
            one.arguments.insert(one.arguments.end(), {"--listen", fmt::format("127.0.0.1:{}", http_port_)});
    }
    else {
        one.program = chosen.programs / "skald-bench-floor";
        one.arguments.insert(one.arguments.end(), {"--lanes", std::to_string(chosen.floor_lanes), "--batch",
                                                   std::to_string(chosen.floor_batch), "--prefetch",
                                                   std::to_string(2 * chosen.floor_batch)});
    }
    services_.push_back(std::make_unique<order_demo::service_process>(std::move(one)));
    services_.back()->start();
}

void fleet::check_that_all_run() const
{
    for (auto const& one : services_)
        if (auto const how = one->ended())
            throw std::runtime_error{
                fmt::format("{} ended by itself with {}:\n{}", one->name(), *how, one->log_tail())};
}

void fleet::wait_for(char const* what, std::chrono::seconds patience, std::chrono::milliseconds tick,
                     std::function<bool()> const& reached) const
{
    for (auto const until = clock::now() + patience; !reached();) {
        if (clock::now() > until) {
            std::string logs;
            for (auto const& one : services_) logs += fmt::format("\n{}:\n{}", one->name(), one->log_tail());
            throw std::runtime_error{fmt::format("{} took longer than {} s{}", what, patience.count(), logs)};
        }
        check_that_all_run();
        interruptions_.wait_for(tick);
    }
}

void fleet::stop()
{
    for (auto const& one : services_) one->ask_to_end();
    auto const until = clock::now() + stop_patience;
    for (auto const& one : services_) {
        std::optional<std::string> how;
        while (!(how = one->ended()) && clock::now() < until) interruptions_.wait_for(10ms);
        if (how != "exit code 0")
            throw std::runtime_error{fmt::format("{} did not end in order ({}):\n{}", one->name(),
                                                 how.value_or("it still runs"), one->log_tail())};
    }
}

std::vector<fleet::process> fleet::processes() const
{
    std::vector<process> found;
    for (auto const& one : services_) found.push_back({one->name(), one->pid()});
    return found;
}

void make_tables(options const& chosen, order_demo::signals const& interruptions, world const& databases)
{
    fleet{chosen, interruptions, databases, implementation::framework, false}.stop();
}

}  // namespace skald_bench
