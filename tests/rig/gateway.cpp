#include "rig/gateway.hpp"

#include <array>
#include <chrono>
#include <sstream>
#include <stdexcept>

#include <skald/testing/wait_until.hpp>

#include <fmt/format.h>

#include "rig/http.hpp"

namespace skald::rig {
namespace {

using namespace std::chrono_literals;

constexpr std::array<char const*, 7> faults{"hang_up_after", "error_after", "error_before", "answer_late",
                                            "slow 300",      "declined",    "down 500"};
constexpr auto between_faults = 500ms;
constexpr double share = 0.15;
constexpr auto answer_within = 5s;
constexpr auto start_patience = 10s;

}  // namespace

gateway::gateway(std::filesystem::path const& program, std::filesystem::path const& folder, std::uint64_t seed)
    : port_{find_free_port()}, random_{seed}, process_{{.program = program.string(),
                                                        .arguments = {"--listen", address(), "--ledger",
                                                                      (folder / "gateway.ledger").string()},
                                                        .log = folder / "gateway.log"}}
{}

std::string gateway::address() const
{
    return fmt::format("127.0.0.1:{}", port_);
}

void gateway::start()
{
    process_.start();
    auto const is_decided = [this] { return process_.http_port() != 0 || !process_.is_running(); };
    if (!testing::wait_until(is_decided, start_patience) || process_.http_port() == 0)
        throw std::runtime_error{"the gateway did not start: " + process_.log_tail()};
}

void gateway::look_after()
{
    if (!process_.is_running()) start();
}

void gateway::misbehave()
{
    if (std::chrono::steady_clock::now() < next_fault_) return;
    next_fault_ = std::chrono::steady_clock::now() + between_faults;
    auto const n = pick(random_, std::size_t{0}, faults.size());
    if (n == faults.size()) plan({{"fault", "die_after"}, {"next", 1}});
    else plan({{"fault", faults[n]}, {"share", share}});
}

void gateway::behave()
{
    plan(nlohmann::json::object());
}

void gateway::plan(nlohmann::json const& wanted)
{
    look_after();
    // If it dies meanwhile, its next process has no faults.
    auto const got = http_client{port_, answer_within}.Put("/faults", wanted.dump(), "application/json");
    if (got && got->status != 204) throw std::runtime_error{"the gateway refuses its faults: " + got->body};
}

nlohmann::json gateway::charges()
{
    look_after();
    auto const got = http_client{port_, answer_within}.Get("/charges");
    if (!got || got->status != 200) throw std::runtime_error{"the gateway does not list its charges"};
    auto all = nlohmann::json::array();
    std::istringstream lines{got->body};
    for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
    return all;
}

}  // namespace skald::rig
