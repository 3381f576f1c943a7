// The crash matrix: every failpoint, every way, every action. Needs a build with failpoints, and a stack of its own;
// `usage` describes the command line.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "core/failpoint.hpp"
#include "mutants.hpp"
#include "run.hpp"

namespace skald::crash {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto patience = 30s;
constexpr std::chrono::milliseconds patience_with_mutants = 6s;  // or three times as long as without one
// Few, because a run that is merely slow must not count as one that noticed.
constexpr std::size_t systems_with_mutants = 4;
constexpr int tries_per_mutant = 3;
constexpr int tries_per_fault = 4;

constexpr char const* usage =
    R"(usage: crash_matrix [--only RUN]... [--matrix [--sample]] [--mutants [NAME]] [--list] [--systems N]

Runs the order example's services with a fault at every failpoint, and looks whether the invariants hold. DATABASE_URL,
AMQP_URL and SKALD_TEST_STACK say where (scripts/test.sh crash sets them).

  (nothing)         everything: the matrix, then the mutants
  --matrix          the matrix alone
  --sample          half of it: each kill, and the other actions in turn, each of them at every point
  --mutants [NAME]  the mutants alone, or one of them
  --only RUN        one run, such as step.committed=kill@2/back/payments, or a way without a fault, such as back;
                    may be given several times
  --list            the names of the runs; goes each way once without a fault, to learn them
  --transport T     rabbitmq [default], or postgres: the points of the transport, without a broker; no mutants
  --systems N        how many shops run side by side [8]
  --help            this

Exit codes: 0 all holds, 1 something does not, 2 wrong usage or no servers.
)";

struct options
{
    std::vector<plan> only;
    std::string mutant;
    bool with_matrix{true}, with_mutants{true}, sampled{}, list{};
    bool without_broker{};
    std::size_t systems{8};
};

std::mutex printing;

void say(std::string const& line)
{
    std::lock_guard const lock{printing};
    std::fputs((line + '\n').c_str(), stdout);
    std::fflush(stdout);
}

void tell(result const& one)
{
    if (one.broken.empty()) return;
    std::string line = fmt::format("FAILED  crash_matrix --only '{}'", one.what.name());
    for (auto const& why : one.broken) line += "\n    " + why;
    say(line);
}

/// Runs plans one after the other in parallel shops; each shop takes the next plan that is left.
class yard
{
public:
    yard(std::size_t systems, bool without_broker) : systems_{systems}, without_broker_{without_broker} {}

    std::vector<result> run_all(std::vector<plan> const& plans)
    {
        std::vector<result> results(plans.size());
        std::atomic<std::size_t> next{0};
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < std::min(systems_, plans.size()); ++i)
            threads.emplace_back([&] {
                try {
                    work(plans, results, next);
                }
                catch (std::exception const& error) {
                    ++accidents;
                    say(fmt::format("FAILED  a shop broke down: {}", error.what()));
                }
            });
        threads.clear();
        return results;
    }

    std::atomic<int> accidents{0};

private:
    void work(std::vector<plan> const& plans, std::vector<result>& results, std::atomic<std::size_t>& next)
    {
        shop_system shop{"", without_broker_};
        int number = 0;
        for (std::size_t i = next++; i < plans.size(); i = next++) {
            results[i] = try_until_it_strikes(shop, plans[i], number);
            tell(results[i]);
            if (auto const now = ++done_; now % 100 == 0) say(fmt::format("... {} of {} runs", now, plans.size()));
        }
        judge_all(shop);
    }

    // A message goes from memory or by the relay, depending on connections that an earlier fault may have cut: a fault
    // that met the other case is tried again.
    static result try_until_it_strikes(shop_system& shop, plan const& what, int& number)
    {
        for (int tries = 1;; ++tries) {
            auto ended = run{shop, what, ++number, patience}.execute();
            if (ended.sprang || what.point.empty() || !ended.broken.empty() || tries == tries_per_fault) return ended;
        }
    }

    // What came late, after its run was judged, must not have changed anything.
    void judge_all(shop_system& shop)
    {
        bool const acked = testing::wait_until([&] { return shop.between().is_empty(); }, patience);
        auto const none = [&](std::size_t service, std::string const& what, std::string const& from) {
            auto const count = shop.database(service).count(from);
            if (count > 0) complain(fmt::format("{} in {}: {}", what, services[service], count));
        };
        if (!acked) complain("deliveries are left that nobody acked");
        none(orders, "sagas that have not ended", "skald.saga WHERE status IN ('running', 'compensating')");
        none(payments, "charges or refunds made twice",
             "(SELECT FROM charge GROUP BY customer, kind HAVING count(*) > 1) AS twice");
        none(shipping, "shipments made twice", "(SELECT FROM shipment GROUP BY sku HAVING count(*) > 1) AS twice");
        for (std::size_t i = 0; i < services.size(); ++i) none(i, "messages left in the outbox", "skald.outbox");
    }

    void complain(std::string const& what)
    {
        ++accidents;
        say("FAILED  at the end: " + what);
    }

    std::size_t systems_;
    bool without_broker_;
    std::atomic<std::size_t> done_{0};
};

bool is_of_transport(std::string_view point)
{
    return point.starts_with("relay.") || point.starts_with("memory.") || point.starts_with("consumer.") ||
           point == "step.committed" || point == "step.acked";
}

// --- The matrix -----------------------------------------------------------------------------------------------------

std::map<std::string_view, hit_counts> discover(yard& all, bool& failed)
{
    std::vector<plan> plans;
    for (auto const& goes : ways) plans.push_back({"", "", 1, &goes, 0});
    std::map<std::string_view, hit_counts> seen;
    for (auto const& one : all.run_all(plans)) {
        failed = failed || !one.broken.empty();
        if (one.what.goes != nullptr) seen[one.what.goes->name] = one.hits;
    }
    return seen;
}

/// For each point the number of runs in which its fault happened, by action; false if it never did at some point.
bool tell_points(std::vector<result> const& results, bool without_broker)
{
    bool all = true;
    say(fmt::format("\n{:<22}{:>6}{:>7}{:>7}{:>6}", "point", "kill", "throw", "reset", "stop"));
    for (auto const& point : core::failpoints) {
        // Nothing comes back from an inbox: who writes into it is told at once.
        if (without_broker && (!is_of_transport(point.name) || point.name == "relay.returned")) continue;
        std::string line = fmt::format("{:<22}", point.name);
        for (auto const action : actions) {
            auto const count = std::ranges::count_if(results, [&](auto const& r) {
                return r.sprang && r.what.point == point.name && r.what.action == action;
            });
            all = all && count > 0;
            line += fmt::format("{:>6}{}", count, count == 0 ? "!" : " ");
        }
        say(line);
    }
    return all;
}

/// The run that docs/guarantees.md names for each point, by point.
std::map<std::string_view, std::string> read_page()
{
    std::map<std::string_view, std::string> named;
    std::ifstream page{SKALD_GUARANTEES};
    for (std::string line; std::getline(page, line);)
        for (auto const& point : core::failpoints) {
            if (!line.starts_with(fmt::format("| `{}` |", point.name))) continue;
            auto const begin = line.find(fmt::format("`{}=", point.name)) + 1;
            named[point.name] = line.substr(begin, line.find('`', begin) - begin);
        }
    return named;
}

/// These runs took place, and hold.
bool check_page(std::vector<result> const& results)
{
    bool good = true;
    auto const named = read_page();
    for (auto const& [point, name] : named) {
        auto const holds = [&](result const& r) { return r.sprang && r.broken.empty() && r.what.name() == name; };
        if (std::ranges::any_of(results, holds)) continue;
        good = false;
        say(fmt::format("FAILED  docs/guarantees.md names {}, which did not happen or does not hold", name));
    }
    if (named.size() != core::failpoints.size()) good = false, say("FAILED  docs/guarantees.md: a point has no row");
    return good;
}

/// What is to be run, but for what was chosen by name.
std::vector<plan> make_plans(options const& chosen, yard& all, bool& failed)
{
    auto plans = make_matrix(discover(all, failed));
    // What a step, a call and an entry do at the points of their own, the other transport's runs have shown.
    if (chosen.without_broker) std::erase_if(plans, [](plan const& one) { return !is_of_transport(one.point); });
    if (!chosen.sampled) return plans;
    std::set<std::string> always;
    for (auto const& [point, name] : read_page()) always.insert(name);
    return sample(plans, always);
}

bool run_matrix(options const& chosen)
{
    auto const began = clock::now();
    yard all{chosen.systems, chosen.without_broker};
    bool failed = false;
    auto const plans = chosen.only.empty() ? make_plans(chosen, all, failed) : chosen.only;
    if (chosen.list) {
        for (auto const& one : plans) say(one.name());
        return true;
    }
    say(fmt::format("{} runs in {} shops", plans.size(), std::min(chosen.systems, plans.size())));
    auto const results = all.run_all(plans);

    auto const broken = std::ranges::count_if(results, [](auto const& r) { return !r.broken.empty(); });
    auto const missed =
        std::ranges::count_if(results, [](auto const& r) { return !r.what.point.empty() && !r.sprang; });
    bool const is_whole = chosen.only.empty() && !chosen.without_broker;
    bool const every_point = chosen.only.empty() ? tell_points(results, chosen.without_broker) : true;
    bool const page_holds = !is_whole || check_page(results);
    if (!every_point) say("FAILED  a point (!) whose fault never happened in any run");
    say(fmt::format("\n{} runs, {} failed, {} in which the fault did not happen, {} s", results.size(), broken, missed,
                    std::chrono::duration_cast<std::chrono::seconds>(clock::now() - began).count()));
    for (auto const& one : results)
        if (!one.what.point.empty() && !one.sprang) say("no fault happened in " + one.what.name());
    return broken == 0 && all.accidents == 0 && every_point && page_holds && !failed;
}

// --- The mutants ----------------------------------------------------------------------------------------------------

/// How its run noticed it; empty if it did not. The run is made without the mutant first, in the separate `sound`
/// system: what fails there too is no proof. Neither is a run that is merely late, one that breaks another invariant
/// than it should, or anything that comes of services that do not work at all.
std::string noticed_by(mutant const& one, shop_system& sound, int& number)
{
    auto const what = parse_plan(one.run);
    if (!what) throw std::logic_error{"no run has the name " + one.run};
    auto const control = run{sound, *what, ++number, patience}.execute();
    if (!control.broken.empty())
        throw std::runtime_error{"without the mutant " + one.run + " fails too: " + control.broken.front()};
    shop_system shop{one.name, false};
    auto const plain = run{shop, {"", "", 1, &forward, 0}, ++number, patience}.execute();
    if (!plain.is_late && std::ranges::any_of(plain.broken, [](auto const& why) { return why.starts_with("I6 "); }))
        throw std::runtime_error{"no order ends, also where nothing happens to it: " + plain.broken.front()};
    std::string instead;
    for (int tries = 0; tries < tries_per_mutant; ++tries) {
        auto const ended = run{shop, *what, ++number, std::max(patience_with_mutants, 3 * control.took)}.execute();
        if (ended.is_late) continue;
        for (auto const& why : ended.broken) {
            if (why.starts_with(one.breaks + ' '))
                return one.run + ": " + why.substr(0, std::min(why.find('\n'), std::size_t{100}));
            instead += "\n    " + why;
        }
    }
    if (!instead.empty()) say(fmt::format("FAILED  {} breaks not {}, but{}", one.name, one.breaks, instead));
    return {};
}

bool run_mutants(options const& chosen)
{
    auto const began = clock::now();
    auto known = read_mutants();
    if (!chosen.mutant.empty()) std::erase_if(known, [&](auto const& one) { return one.name != chosen.mutant; });
    std::atomic<std::size_t> next{0}, survived{0};
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::min(chosen.systems, systems_with_mutants); ++i)
        threads.emplace_back([&] {
            shop_system sound{"", false};
            int number = 0;
            for (auto n = next++; n < known.size(); n = next++) {
                std::string by;
                try {
                    by = noticed_by(known[n], sound, number);
                }
                catch (std::exception const& error) {
                    say(fmt::format("FAILED  {}: {}", known[n].name, error.what()));
                }
                if (by.empty()) ++survived;
                say(fmt::format("{:<24}{}", known[n].name, by.empty() ? "FAILED: it survived" : by));
            }
        });
    threads.clear();
    say(fmt::format("{} mutants, {} survived, {} s", known.size(), survived.load(),
                    std::chrono::duration_cast<std::chrono::seconds>(clock::now() - began).count()));
    return survived == 0;
}

[[noreturn]] void refuse(std::string const& why)
{
    std::fputs(("crash_matrix: " + why + "\n\n" + usage).c_str(), stderr);
    std::exit(2);
}

plan read_plan(std::string_view name)
{
    auto const what = parse_plan(name);
    if (!what) refuse(fmt::format("'{}' is no name of a run: --list has them all", name));
    if (!what->point.empty() &&
        std::ranges::find(core::failpoints, what->point, &core::failpoint::name) == core::failpoints.end())
        refuse(fmt::format("'{}': there is no failpoint {}", name, what->point));
    if (!what->point.empty() && std::ranges::find(actions, what->action) == actions.end() &&
        !what->action.starts_with("sleep:"))
        refuse(fmt::format("'{}': the actions are kill, throw, reset, stop and sleep:MS", name));
    return *what;
}

std::string read_mutant(std::string_view name)
{
    std::string const wanted{name};
    auto const known = read_mutants();
    if (std::ranges::find(known, wanted, &mutant::name) == known.end())
        refuse(fmt::format("no run notices a mutant '{}': docs/guarantees.md has them all", name));
    return wanted;
}

options read(int argc, char** argv)
{
    options chosen;
    for (int i = 1; i < argc; ++i) {
        std::string_view const word{argv[i]};
        bool const has_value = i + 1 < argc && argv[i + 1][0] != '-';
        if (word == "--help" || word == "-h") {
            std::fputs(usage, stdout);
            std::exit(0);
        }
        if (word == "--list") chosen.list = true, chosen.with_mutants = false;
        else if (word == "--matrix") chosen.with_mutants = false;
        else if (word == "--sample") chosen.sampled = true, chosen.with_mutants = false;
        else if (word == "--mutants")
            chosen.with_matrix = false, chosen.mutant = has_value ? read_mutant(argv[++i]) : "";
        else if (word == "--transport" && has_value) {
            std::string_view const named{argv[++i]};
            if (named != "rabbitmq" && named != "postgres")
                refuse(fmt::format("--transport is rabbitmq or postgres, not '{}'", named));
            chosen.without_broker = named == "postgres";
            if (chosen.without_broker) chosen.with_mutants = false;
        }
        else if (word == "--systems" && has_value) chosen.systems = std::strtoul(argv[++i], nullptr, 10);
        else if (word == "--only" && has_value) {
            chosen.only.push_back(read_plan(argv[++i]));
            chosen.with_mutants = false;
        }
        else if (word == "--systems" || word == "--only") refuse(fmt::format("{} needs a value", word));
        else refuse(fmt::format("'{}' is no argument", word));
    }
    if (chosen.systems == 0) refuse("--systems is a number from 1");
    if (!chosen.with_matrix && (chosen.list || !chosen.only.empty() || chosen.sampled))
        refuse("--mutants goes with none of --list, --only and --sample");
    return chosen;
}

}  // namespace
}  // namespace skald::crash

int main(int argc, char** argv)
try {
    using namespace skald::crash;
    auto const chosen = read(argc, argv);
    bool good = true;
    if (chosen.with_matrix) good = run_matrix(chosen) && good;
    if (chosen.with_mutants) good = run_mutants(chosen) && good;
    return good ? 0 : 1;
}
catch (std::exception const& error) {
    std::fprintf(stderr, "crash_matrix: %s\n", error.what());
    return 2;
}
