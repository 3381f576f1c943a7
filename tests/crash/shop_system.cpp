#include "shop_system.hpp"

#include "mutants.hpp"

#include <array>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace skald::crash {
namespace {

using namespace std::chrono_literals;

// How long a stopped process stays stopped.
constexpr auto stop_for = 3s;

constexpr std::array<char const*, services.size()> programs{
    SKALD_PROGRAMS "/order_service", SKALD_PROGRAMS "/faulty_payment_service", SKALD_PROGRAMS "/shipping_service"};
constexpr char const* tool_of_operator = SKALD_PROGRAMS "/skald_cli";

std::vector<std::string> arguments(std::size_t service, std::uint16_t port)
{
    if (service != orders) return {};
    return {"--listen", "127.0.0.1:" + std::to_string(port)};
}

std::string words_for(test::ending const& how)
{
    return "ended with " +
           (how.signal ? "signal " + std::to_string(*how.signal) : "code " + std::to_string(how.code.value_or(-1)));
}

}  // namespace

shop_system::shop_system(std::string const& mutant, bool without_broker)
    : mutant_{mutant}, port_{rig::find_free_port()}, standin_port_{rig::find_free_port()}
{
    for (std::size_t i = 0; i < services.size(); ++i)
        databases_[i] = std::make_unique<test::fresh_database>("crash_" + std::string{services[i]});
    mail_ = without_broker ? mail_by_inbox(databases_) : mail_by_broker();
    for (auto& one : arms_) one = std::make_unique<armament>();
    for (std::size_t i = 0; i < services.size(); ++i) {
        processes_[i] = std::make_unique<test::service_process>(programs[i], arguments(i, port_), variables(i, true));
        standins_[i] =
            std::make_unique<test::service_process>(programs[i], arguments(i, standin_port_), variables(i, false));
        processes_[i]->start();
    }
    if (!testing::wait_until([&] { return look_after(); }))
        throw std::runtime_error{"the shop does not open:\n" + logs()};
    mail_->begin();
}

shop_system::~shop_system()
{
    for (auto& process : processes_) process->kill(SIGKILL);
}

test::environment shop_system::variables(std::size_t service, bool armed) const
{
    test::environment made{{"DATABASE_URL", databases_[service]->url()},
                           {"PATH", "/usr/bin:/bin"},
                           {"SKALD_LOCK_TIMEOUT_MS", "1000"},
                           // It is chance which deliveries come together, and with it which points are passed.
                           {"SKALD_BATCH_MAX", "1"},
                           {"SKALD_DISPATCH_GRACE_MS", "1000"},  // a message that is lost from memory comes that late
                           {"SKALD_PURGE_SECONDS", "1"}};
    made.merge(mail_->variables());
    if (!mutant_.empty()) made["LD_PRELOAD"] = library_of(mutant_);
    if (armed) arms_[service]->add_to(made);
    return made;
}

test::environment shop_system::operator_variables(std::size_t service, bool armed) const
{
    test::environment made{{"DATABASE_URL", databases_[service]->url()}, {"PATH", "/usr/bin:/bin"}};
    if (!mutant_.empty()) made["LD_PRELOAD"] = library_of(mutant_);
    if (armed) arms_[the_operator]->add_to(made);
    return made;
}

void shop_system::arm(std::size_t place, std::string const& program)
{
    happened_.clear();
    for (std::size_t i = 0; i < places.size(); ++i) arms_[i]->arm(i == place ? program : "");
}

bool shop_system::look_after()
{
    bool all_up = true;
    for (std::size_t i = 0; i < services.size(); ++i) {
        look_after(i);
        all_up = all_up && is_up_[i] && !stopped_[i];
    }
    return all_up;
}

void shop_system::look_after(std::size_t i)
{
    auto& process = *processes_[i];
    if (!process.is_running()) {
        happened_ += std::string{services[i]} + ' ' + words_for(process.wait()) + "; ";
        arms_[i]->disarm();
        is_up_[i] = false;
        process.start();
    }
    if (!is_up_[i]) is_up_[i] = process.has_logged(" worker.started ");
    if (!stopped_[i] && is_stopped(process.pid())) {
        stopped_[i] = clock::now();
        happened_ += std::string{services[i]} + " stopped; ";
        start_standin(i);
    }
    if (stopped_[i] && clock::now() - *stopped_[i] >= stop_for) {
        process.kill(SIGCONT);
        stopped_[i].reset();
    }
}

// A stopped process still has its connections, its deliveries and its locks; the work goes on elsewhere meanwhile, and
// when the process wakes up it must not do it again.
void shop_system::start_standin(std::size_t i)
{
    if (!standins_[i]->is_running()) standins_[i]->start();
}

void shop_system::operate(std::size_t service, std::vector<std::string> const& words)
{
    constexpr int tries_max = 3;
    test::service_process tool{tool_of_operator, words, operator_variables(service, true)};
    test::service_process other{tool_of_operator, words, operator_variables(service, false)};
    tool.start();
    while (tool.is_running()) {
        std::this_thread::sleep_for(2ms);  // between two polls: a stopped process reports nothing
        if (!is_stopped(tool.pid())) continue;
        happened_ += "operator stopped; ";
        auto const until = clock::now() + stop_for;
        other.run();
        std::this_thread::sleep_until(until);  // the disturbance itself
        tool.kill(SIGCONT);
    }
    auto how = tool.wait();
    if (how.code == 0) return;
    happened_ += "operator " + words_for(how) + "; ";
    // A rejection exits with a code as a failure does: then the command is repeated in vain.
    for (int tries = 1; how.code != 0 && tries < tries_max; ++tries) how = other.run();
}

void shop_system::set_lanes(std::size_t service, unsigned lanes)
{
    if (lanes == usual_lanes && lanes_[service] == usual_lanes) return;
    lanes_[service] = lanes;
    processes_[service]->set_variable("SKALD_LANES", std::to_string(lanes));
    processes_[service]->set_variable("SKALD_BATCH_MAX", lanes == usual_lanes ? "1" : "32");
    restart(service);
}

void shop_system::set_payments(way const& goes)
{
    auto& wanted = goes.is_blind ? blind_gateway_ : gateway_;
    if (!goes.gateway.empty() && !wanted)
        wanted = std::make_unique<test::gateway_process>(
            goes.is_blind ? std::vector<std::string>{"--keys", "ignored", "--lookup", "off"}
                          : std::vector<std::string>{});
    in_use_ = goes.gateway.empty() ? nullptr : wanted.get();
    std::vector<std::string> arguments;
    if (in_use_ != nullptr) {
        in_use_->plan(std::string{goes.gateway});
        arguments = {"--gateway", "127.0.0.1:" + std::to_string(in_use_->port())};
    }
    if (goes.waits_ms > 0) arguments = {"--wait", std::to_string(goes.waits_ms)};
    if (arguments == payments_arguments_) return;
    payments_arguments_ = arguments;
    for (auto* one : {processes_[payments].get(), standins_[payments].get()}) one->set_arguments(arguments);
    restart(payments);
}

void shop_system::restart(std::size_t service)
{
    processes_[service]->kill(SIGKILL);
    processes_[service]->wait();
    if (!testing::wait_until([&] { return look_after(); }))
        throw std::runtime_error{"the shop does not open again:\n" + logs()};
}

void shop_system::send_standins_home()
{
    for (auto& one : standins_) one->kill(SIGKILL);
    for (auto& one : standins_) one->wait();
}

std::string shop_system::logs() const
{
    std::string all;
    for (std::size_t i = 0; i < services.size(); ++i) {
        all += "--- log of " + std::string{services[i]} + '\n' + processes_[i]->log();
        if (auto const other = standins_[i]->log(); !other.empty()) all += "--- its stand-in\n" + other;
    }
    return all;
}

}  // namespace skald::crash
