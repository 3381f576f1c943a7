#include "waiting_services.hpp"

#include "broker_extras.hpp"

#include "rig/broker.hpp"
#include "rig/http.hpp"

#include <csignal>
#include <stdexcept>

#include <fmt/format.h>

namespace skald_bench {
namespace {

using namespace std::chrono_literals;

constexpr char const* waiting_queue = "skald.bench-waiting";
constexpr auto process_patience = 60s;

skald::rig::broker::queue_state look_at_queue(bench const& b)
{
    return skald::rig::broker{b.chosen.broker_url}.look_at(waiting_queue).value_or(skald::rig::broker::queue_state{});
}

}  // namespace

double milliseconds_of(std::chrono::system_clock::time_point when)
{
    return std::chrono::duration<double, std::milli>(when.time_since_epoch()).count();
}

double milliseconds_now()
{
    return milliseconds_of(std::chrono::system_clock::now());
}

waiting_services::waiting_services(bench const& b, int processes)
    : b_{b}, databases_{b.chosen.database_url, b.chosen.tcp}
{
    broker_connection broker{b.chosen.broker_url};
    for (auto const* of_it : {"", ".database"}) broker.delete_queue((std::string{waiting_queue} + of_it).c_str());
    for (int n = 1; n <= processes; ++n) {
        ports_.push_back(skald::rig::find_free_port());
        skald::rig::process_settings one;
        one.name = fmt::format("waiting {}", n);
        one.log = std::filesystem::path{b.chosen.logs} / fmt::format("waiting-{}.log", n);
        one.inherits_environment = true;
        one.program = (b.chosen.programs / "skald-bench-service").string();
        one.arguments = {"waiting", "--listen", fmt::format("127.0.0.1:{}", ports_.back())};
        one.variables = {{"DATABASE_URL", databases_.url(orders)},
                         {"AMQP_URL", b.chosen.broker_url},
                         {"BENCH_LEASE", std::to_string(b.chosen.lease_seconds)}};
        processes_.push_back(std::make_unique<skald::rig::process>(std::move(one)));
        restart(processes_.size() - 1);
    }
}

void waiting_services::restart(std::size_t n)
{
    at(n).start();
    wait_for("starting a service", process_patience,
             [&] { return skald::rig::is_ready(ports_.at(n)) && consumers() > 0; });
}

void waiting_services::wait_for(char const* what, std::chrono::seconds patience,
                                std::function<bool()> const& reached) const
{
    for (auto const until = std::chrono::steady_clock::now() + patience; !reached();) {
        if (std::chrono::steady_clock::now() > until)
            throw std::runtime_error{
                fmt::format("{} took longer than {} s:\n{}", what, patience.count(), processes_.front()->log_tail())};
        b_.interruptions.wait_for(20ms);
    }
}

void waiting_services::stop()
{
    for (auto const& one : processes_)
        if (one->is_running())
            if (auto const how = one->terminate(); how.code != 0)
                throw std::runtime_error{
                    fmt::format("{} did not end in order ({}):\n{}", one->name(), in_words(how), one->log_tail())};
}

std::uint32_t waiting_services::ready_messages() const
{
    return look_at_queue(b_).ready;
}

std::uint32_t waiting_services::consumers() const
{
    return look_at_queue(b_).consumers;
}

}  // namespace skald_bench
