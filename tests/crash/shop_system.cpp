#include "shop_system.hpp"

#include "mutants.hpp"
#include "support/stack_control.hpp"

#include <array>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

namespace skald::crash {
namespace {

using namespace std::chrono_literals;

// How long a stopped process stays stopped.
constexpr auto stop_for = 3s;

constexpr std::array<char const*, services.size()> programs{
    SKALD_PROGRAMS "/order_service", SKALD_PROGRAMS "/faulty_payment_service", SKALD_PROGRAMS "/shipping_service"};
constexpr char const* tool_of_operator = SKALD_PROGRAMS "/skald_cli";

std::string new_file()
{
    char name[] = "/tmp/skald-crash-XXXXXX";
    int const file = ::mkstemp(name);
    if (file < 0) throw std::runtime_error{"no temporary file"};
    ::close(file);
    return name;
}

/// Whether every thread of it is stopped.
bool is_stopped(pid_t pid)
{
    std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
    std::string text{std::istreambuf_iterator<char>{file}, {}};
    auto const end = text.rfind(") ");
    return end != std::string::npos && text.size() > end + 2 && text[end + 2] == 'T';
}

std::vector<std::string> arguments(std::size_t service, std::uint16_t port)
{
    if (service != orders) return {};
    return {"--listen", "127.0.0.1:" + std::to_string(port)};
}

void add_armament(test::environment& variables, armament const& arms)
{
    variables["SKALD_FAILPOINTS"] = '@' + arms.program();
    variables["SKALD_FAILPOINT_TRACE"] = arms.trace();
}

std::string words_for(test::ending const& how)
{
    return "ended with " +
           (how.signal ? "signal " + std::to_string(*how.signal) : "code " + std::to_string(how.code.value_or(-1)));
}

}  // namespace

armament::armament() : program_{new_file()}, trace_{new_file()} {}

armament::~armament()
{
    ::unlink(program_.c_str());
    ::unlink(trace_.c_str());
}

void armament::rearm(std::string const& text)
{
    // Newlines at the end mean nothing but make it a different text, so that the counts start again; one write, so that
    // it is read in one piece.
    std::string record = text + std::string(1 + generation_++ % 64, '\n');
    int const file = ::open(program_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (file < 0 || ::write(file, record.data(), record.size()) != static_cast<ssize_t>(record.size()))
        throw std::runtime_error{"can't write " + program_};
    ::close(file);
}

void armament::arm(std::string const& text)
{
    if (::truncate(trace_.c_str(), 0) != 0) throw std::runtime_error{"can't empty " + trace_};
    rearm(text);
}

std::map<std::string, unsigned> armament::hits() const
{
    std::map<std::string, unsigned> counts;
    std::ifstream file{trace_};
    std::string point, count, action;
    while (file >> point >> count >> action) ++counts[point];
    return counts;
}

bool armament::sprang() const
{
    std::ifstream file{trace_};
    std::string point, count, action;
    while (file >> point >> count >> action)
        if (action != "-") return true;
    return false;
}

shop_system::shop_system(std::string const& mutant)
    : mutant_{mutant}, broker_{test::required("AMQP_URL")}, port_{rig::find_free_port()}, standin_port_{
                                                                                              rig::find_free_port()}
{
    broker_.vhost = "crash-" + test::random_word();
    test::rabbitmqctl("add_vhost " + broker_.vhost);
    test::rabbitmqctl("set_permissions -p " + broker_.vhost + ' ' + broker_.user + " '.*' '.*' '.*'");
    hands_ = std::make_unique<test::amqp_hands>(broker_);
    hands_->capture_everything();
    for (auto& one : arms_) one = std::make_unique<armament>();
    for (std::size_t i = 0; i < services.size(); ++i) {
        databases_[i] = std::make_unique<test::fresh_database>("crash_" + std::string{services[i]});
        processes_[i] = std::make_unique<test::service_process>(programs[i], arguments(i, port_), variables(i, true));
        standins_[i] =
            std::make_unique<test::service_process>(programs[i], arguments(i, standin_port_), variables(i, false));
        processes_[i]->start();
    }
    if (!testing::wait_until([&] { return look_after(); }))
        throw std::runtime_error{"the shop does not open:\n" + logs()};
}

shop_system::~shop_system()
{
    try {
        for (auto& process : processes_) process->kill(SIGKILL);
        test::rabbitmqctl("delete_vhost " + broker_.vhost);
    }
    catch (std::exception const& error) {
        std::fprintf(stderr, "the virtual host %s stays behind: %s\n", broker_.vhost.c_str(), error.what());
    }
}

test::environment shop_system::variables(std::size_t service, bool armed) const
{
    test::environment made{{"DATABASE_URL", databases_[service]->url()},
                           {"AMQP_URL", broker_.url()},
                           {"PATH", "/usr/bin:/bin"},
                           {"SKALD_LOCK_TIMEOUT_MS", "1000"},
                           // It is chance which deliveries come together, and with it which points are passed.
                           {"SKALD_BATCH_MAX", "1"},
                           {"SKALD_DISPATCH_GRACE_MS", "1000"},  // a message that is lost from memory comes that late
                           {"SKALD_PURGE_SECONDS", "1"}};
    if (!mutant_.empty()) made["LD_PRELOAD"] = library_of(mutant_);
    if (armed) add_armament(made, *arms_[service]);
    return made;
}

test::environment shop_system::operator_variables(std::size_t service, bool armed) const
{
    test::environment made{{"DATABASE_URL", databases_[service]->url()}, {"PATH", "/usr/bin:/bin"}};
    if (!mutant_.empty()) made["LD_PRELOAD"] = library_of(mutant_);
    if (armed) add_armament(made, *arms_[the_operator]);
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
