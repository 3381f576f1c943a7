// `skald duplicate`: a broker may deliver twice; this makes it happen every time. For staging systems.
#include "commands.hpp"
#include "database.hpp"
#include "durations.hpp"

#include "duplicator/duplicator.hpp"
#include "rabbitmq/url.hpp"
#include "worker/signals.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace skald::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto poll_interval = 200ms;
constexpr auto end_patience = 30s;

struct duplicate_options
{
    std::vector<std::string> services;
    int times{3};
    std::int64_t later_ms{30'000};
    std::int64_t for_ms{};  // 0: until SIGTERM
    std::uint64_t seed{std::random_device{}()};
    bool staging{};
};

// Skald's own steps are not affected. Any other consumer of these queues has no guard, and a production system is the
// wrong place to find out.
void refuse_production(duplicate_options const& options, std::string const& where)
{
    if (options.staging) return;
    throw configuration_error{fmt::format(
        "`skald duplicate` sends every message again, {} times each, and so asks more of the broker and of each "
        "service, and makes whatever has no guard act several times. It is for staging systems. If {} is one, say "
        "--staging",
        options.times, where)};
}

duplicator begin(duplicate_options const& options, std::string const& url)
try {
    duplicator_options wanted;
    wanted.broker_url = url;
    wanted.services = options.services;
    wanted.times = options.times;
    wanted.delay = now_and_later(std::chrono::milliseconds{options.later_ms});
    wanted.seed = options.seed;
    wanted.tell = complain;
    return duplicator{std::move(wanted)};
}
catch (std::invalid_argument const& error) {
    throw configuration_error{error.what()};
}

int sum_up(duplicator const& copies, std::uint64_t seed, output const& out)
{
    auto const done = copies.so_far();
    auto sentence = fmt::format("{} messages seen, {} duplicates sent and confirmed", done.seen, done.duplicates);
    if (done.left > 0) sentence += fmt::format("; {} were not confirmed in time", done.left);
    out.tell(sentence,
             {{"seen", done.seen}, {"duplicates", done.duplicates}, {"unconfirmed", done.left}, {"seed", seed}});
    copies.check();
    return done.left > 0 ? 1 : 0;
}

void add_options(CLI::App& command, duplicate_options& options)
{
    command
        .add_option("--service", options.services, "a service whose messages are sent again; its queue is skald.NAME")
        ->required();
    command.add_option("--times", options.times, "how often each message is sent again")
        ->check(CLI::Range(1, 100))
        ->capture_default_str();
    command
        .add_option(
            "--later", options.later_ms,
            "the first duplicate is sent at once, the others at some moment within that time [30s]: 500ms, 30s, 5m")
        ->transform(milliseconds_with_unit() & CLI::Range(std::int64_t{0}, std::int64_t{86'400'000}));
    command.add_option("--for", options.for_ms, "stop by itself after that time: 90s, 15m, 2h")
        ->transform(milliseconds_with_unit() & CLI::Range(std::int64_t{0}, std::int64_t{31'536'000'000}));
    command.add_option("--seed", options.seed, "for the random times; the same seed gives the same ones [random]");
    command.add_flag("--staging", options.staging, "this is no production system: without it, nothing is done");
    command.footer(
        "Originals are neither held up nor changed, and no duplicate differs from its original or is duplicated "
        "itself.\n"
        "SIGTERM and SIGINT end it: what was held back is sent at once, and its queue is deleted; a second one ends it "
        "at once.\n"
        "Do not delete a service's queue meanwhile: what is sent to it would count as delivered.");
}

int duplicate(duplicate_options const& options, output const& out)
{
    auto const settings = config::from_environment();
    refuse_without_broker(settings, "duplicate");
    auto const& url = broker_url(settings);
    auto const where = rabbitmq::describe(rabbitmq::parse_url(url));
    refuse_production(options, where);
    worker_detail::signals const signals;
    auto copies = begin(options, url);
    complain(fmt::format("sending everything for {} at {} again, {} times (seed {}); SIGTERM or Ctrl-C ends it",
                         fmt::join(options.services, ", "), where, options.times, options.seed));

    auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds{options.for_ms};
    bool const has_end = options.for_ms > 0;
    while (!signals.wait(poll_interval) && !(has_end && std::chrono::steady_clock::now() >= end)) copies.check();
    auto const until = std::chrono::steady_clock::now() + end_patience;
    while (!copies.finish(poll_interval) && std::chrono::steady_clock::now() < until && !signals.wait(0ms))
        copies.check();
    return sum_up(copies, options.seed, out);
}

}  // namespace

void add_duplicate_command(CLI::App& app, output& out, choice& chosen)
{
    auto* const command = app.add_subcommand(
        "duplicate",
        "send every message to some services again and again, until SIGTERM: for staging systems, never production");
    auto const options = std::make_shared<duplicate_options>();
    add_options(*command, *options);
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [options, &out] { return duplicate(*options, out); }; });
}

}  // namespace skald::tools
