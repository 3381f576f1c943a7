// `skald audit`: does the other side have what we have, and do all databases agree on every saga?
#include "commands.hpp"
#include "database.hpp"
#include "durations.hpp"
#include "kafka_commands.hpp"
#include "table.hpp"

#include "audit/comparison.hpp"
#include "audit/database.hpp"
#include "audit/listing.hpp"
#include "audit/survey.hpp"
#include "core/regular_file.hpp"
#include "postgres/connection.hpp"
#include "postgres/literal.hpp"
#include "rabbitmq/administration.hpp"
#include "skald_audit_queries.hpp"
#include "skald_operator_queries.hpp"
#include "worker/transports.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <thread>

namespace skald::tools {
namespace {

struct audit_options
{
    std::string databases, service, since, until, ours_file;
    audit::listing_options listing;
    audit::ours_options ours;
    std::int64_t grace_ms{300'000}, again_ms{5'000};
    std::size_t rows_max{1'000};

    std::chrono::seconds grace() const
    {
        return std::chrono::ceil<std::chrono::seconds>(std::chrono::milliseconds{grace_ms});
    }
};

nlohmann::json as_json(audit::finding const& one)
{
    nlohmann::json object{{"kind", one.kind},   {"service", one.service}, {"scope", one.scope},
                          {"key", one.key},     {"what", one.what},       {"since", one.since},
                          {"means", one.means}, {"why", one.why},         {"command", one.command}};
    auto const value = [](auto const& text) { return text ? nlohmann::json(*text) : nlohmann::json(nullptr); };
    if (one.kind == "different") {
        object["ours"] = value(one.ours);
        object["theirs"] = value(one.theirs);
    }
    return object;
}

int report(audit::findings const& found, std::string const& looked_at, nlohmann::json object, output const& out)
{
    object["total"] = found.total();
    object["counts"] = found.counts();
    object["findings"] = nlohmann::json::array();
    std::vector<std::vector<std::string>> rows{{"finding", "service", "key", "what", "since", "means", "command"}};
    std::string whys;
    std::set<std::string> explained;
    for (auto const& one : found.kept()) {
        object["findings"].push_back(as_json(one));
        rows.push_back({one.kind, one.service, one.scope.empty() ? one.key : one.scope + " " + one.key, one.what,
                        one.since, one.means, one.command});
        if (explained.insert(one.kind).second) whys += fmt::format("{}: {}\n", one.kind, one.why);
    }
    std::string text;
    if (found.total() > 0) text = table(rows) + "\n\n" + whys;
    if (found.total() > found.kept().size()) {
        for (auto const& [kind, count] : found.counts()) text += fmt::format("{} {}\n", count, kind);
        text += fmt::format("these are the first {}: --rows shows more\n", found.kept().size());
    }
    out.tell(text + fmt::format("{} findings; {}", found.total(), looked_at), object);
    if (found.total() > 0) return 1;
    // 1 would say that something is off.
    return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 ? 0 : 2;
}

audit::queues_seen inboxes(std::vector<audit::service_database> const& services)
{
    audit::queues_seen seen;
    for (auto const& one : services) {
        postgres::connection_options options;
        options.url = one.url;
        postgres::connection c{options};
        unsigned messages = 0;
        for (auto const& row : c.run(std::string{operator_queries::inbox_queues}))
            messages += row["waiting"].as<unsigned>() + row["taken"].as<unsigned>();
        seen.waiting[one.service] = messages;
    }
    return seen;
}

// Only where a broker is named: what its queues hold explains sagas that no database explains.
// `told`: what was said already, since they are looked at twice.
audit::queues_seen queues(config const& settings, std::vector<audit::service_database> const& services,
                          std::set<std::string>& told)
{
    if (worker_detail::has_no_broker(settings)) return inboxes(services);
    bool const is_kafka = !worker_detail::uses_rabbitmq(settings);
    audit::queues_seen seen{{}, is_kafka};
    if (!is_kafka && std::getenv("AMQP_URL") == nullptr && std::getenv("AMQP_URL_FILE") == nullptr) return seen;
    for (auto const& one : services) {
        try {
            if (is_kafka) {
                seen.waiting[one.service] = static_cast<unsigned>(waiting_in_kafka(settings, one.service));
                continue;
            }
            auto const found = rabbitmq::inspect(broker_url(settings), one.service, {}, settings.declare);
            if (found.queue) seen.waiting[one.service] = found.queue->messages;
        }
        catch (std::exception const& error) {
            auto const why = fmt::format("the queue of {} can't be seen: {}", one.service, error.what());
            if (told.insert(one.service).second) complain(why);
        }
    }
    return seen;
}

int audit_all(audit_options const& options, output const& out)
{
    if (options.databases.empty())
        throw configuration_error{
            "name the databases of all services: --databases FILE, with a line SERVICE=URL for each; or the other side "
            "of one of them: --service NAME --against COMMAND"};
    auto const settings = config::from_environment();
    audit::survey_options wanted;
    wanted.databases = postgres::read_service_databases(options.databases, "--databases");
    wanted.file = options.databases;
    wanted.grace = options.grace();
    std::set<std::string> told;
    wanted.queues = [&] { return queues(settings, wanted.databases, told); };
    wanted.wait = [&] { std::this_thread::sleep_for(std::chrono::milliseconds{options.again_ms}); };
    audit::findings found{options.rows_max};
    auto const counted = audit::survey(wanted, found);
    return report(found,
                  fmt::format("{} sagas and {} records of {} services examined", counted.sagas, counted.records,
                              wanted.databases.size()),
                  {{"services", wanted.databases.size()},
                   {"keys", counted.keys},
                   {"sagas", counted.sagas},
                   {"records", counted.records}},
                  out);
}

std::string read_query(audit_options const& options)
try {
    auto const text = options.ours_file.empty() ? options.ours.query : core::read_regular_file(options.ours_file);
    return audit::trimmed(text);
}
catch (core::file_not_read const& error) {
    throw configuration_error{fmt::format("--ours-file {} {}", options.ours_file, error.what())};
}

void check(audit_options const& options)
{
    if (options.service.empty()) throw configuration_error{"--against needs --service: whose records to compare"};
    if (options.ours.query.empty() && options.ours.step.empty())
        throw configuration_error{
            "say what we have: --ours 'SELECT key, amount FROM charge WHERE at >= $1 AND at < $2', or --step for the "
            "guard's records of a step, or both"};
    if (options.ours.query.empty() && !options.ours.compare.empty())
        throw configuration_error{"--compare needs --ours: the guard's records hold nothing but keys"};
    for (auto const& member : options.ours.compare)
        if (std::ranges::count(options.ours.compare, member) > 1)
            throw configuration_error{"--compare has " + member + " twice"};
}

// Records that have expired are not missing: without rows of one's own there is nothing left to compare.
void check_retention(postgres::connection& c, audit::period const& over, audit_options const& options)
{
    auto const since = audit::remembered_since(c);
    if (!options.ours.query.empty() || !since || over.since - over.grace >= *since) return;
    throw configuration_error{
        fmt::format("{} has deleted its records from before {} (SKALD_RETENTION_DAYS), and the period begins less than "
                    "--grace after that: give --ours, a query of your own tables, or a later --since",
                    options.service, core::write_instant(*since))};
}

// A name that nobody has would compare nothing with all that the other side has.
void check_step(postgres::connection& c, std::string step, std::string const& service)
{
    constexpr std::string_view undoing{".compensate"};
    if (step.ends_with(undoing)) step.resize(step.size() - undoing.size());
    if (step.empty()) return;
    auto const known = c.run(postgres::filled_in(audit::queries::audit_step{.step = step}));
    if (known[0]["is_known"].as<bool>()) return;
    throw configuration_error{
        fmt::format("--step: {} has no step {}; it has {}", service, step, known[0]["all_steps"].c_str())};
}

std::optional<core::instant> time_or_none(std::string const& option, std::string const& text)
{
    if (text.empty()) return std::nullopt;
    return audit::read_time(option, text);
}

int audit_against(audit_options options, output const& out)
{
    options.ours.query = read_query(options);
    check(options);
    auto url = config::from_environment().database_url;
    if (!options.databases.empty())
        url = audit::find_service(postgres::read_service_databases(options.databases, "--databases"), options.service,
                                  options.databases)
                  .url;
    postgres::connection c{audit::options_for(url)};
    audit::check_owner(c, options.service);
    check_step(c, options.ours.step, options.service);
    auto const now = core::parse_instant(c.run(std::string{audit::queries::audit_clock})[0]["at"].c_str()).value();
    auto over = audit::make_period(time_or_none("--since", options.since), time_or_none("--until", options.until),
                                   options.grace(), now);
    check_retention(c, over, options);
    over = audit::with_beginnings(c, options.ours, over);

    auto const asked = over.widened(1);
    options.listing.compare = options.ours.compare;
    options.listing.variables = {{"SKALD_AUDIT_SINCE", core::write_instant(asked.since)},
                                 {"SKALD_AUDIT_UNTIL", core::write_instant(asked.until)}};
    audit::sorted_entries theirs;
    audit::read_listing(options.listing, theirs);
    audit::findings found{options.rows_max};
    auto const counted = audit::compare(c, theirs, options.ours, over, options.service, found);
    return report(found,
                  fmt::format("{} there and {} here compared, from {} until {}", counted.theirs, counted.ours,
                              core::write_instant(over.since), core::write_instant(over.until)),
                  {{"service", options.service},
                   {"since", core::write_instant(over.since)},
                   {"until", core::write_instant(over.until)},
                   {"theirs", counted.theirs},
                   {"ours", counted.ours}},
                  out);
}

// 1 says that something is off. Where nothing can be said, that is something else.
int audit_or_say_why_not(audit_options const& options, output const& out)
try {
    return options.listing.command.empty() ? audit_all(options, out) : audit_against(options, out);
}
catch (configuration_error const&) {
    throw;
}
catch (std::exception const& error) {
    std::string_view const what = error.what();
    return out.fail(fmt::format("nothing can be said: {}", what.substr(0, what.find('\n'))), 2);
}

// An empty value is more likely an unset variable of a script than an intention to have none: without it, something
// else would be compared.
CLI::Validator given_text()
{
    auto const refuse = [](std::string& text) {
        return text.empty() ? "empty; give one, or leave it out" : std::string{};
    };
    return {refuse, ""};
}

void add_comparing_options(CLI::App& command, audit_options& options)
{
    auto* const against =
        command.add_option("--against", options.listing.command,
                           "a command that prints what the other side has, one JSON object with a `key` a line");
    against->check(given_text());
    auto const add = [&](char const* name, auto& value, char const* help) {
        return command.add_option(name, value, help)->needs(against)->check(given_text());
    };
    add("--service", options.service,
        "whose records are compared; its database is that of DATABASE_URL or --databases");
    auto* const ours =
        add("--ours", options.ours.query, "a query for what we have over a period: key, and what is compared");
    add("--ours-file", options.ours_file, "a file with that query")->excludes(ours);
    add("--step", options.ours.step, "the guard's records of this step are compared too, or alone");
    add("--compare", options.ours.compare, "members that must be equal, with commas: amount,currency")->delimiter(',');
    add("--since", options.since, "2026-11-01 or 2026-11-01T12:00:00Z [two days before --until]");
    add("--until", options.until, "the same [as late as can be: twice --grace ago]");
    command.add_flag("--by-saga", options.ours.by_saga, "the other side has the saga's key, and not `key:step`")
        ->needs(against);
    command
        .add_flag("--needs-end", options.listing.needs_end,
                  "refuse output whose last line is not {\"end\": N}, N being the number of lines before it")
        ->needs(against);
}

}  // namespace

void add_audit_command(CLI::App& app, output& out, choice& chosen)
{
    auto* const command = app.add_subcommand(
        "audit",
        "compare with what another side has, or all databases with each other; exit with 1 if anything is off");
    auto const options = std::make_shared<audit_options>();
    add_comparing_options(*command, *options);
    command->add_option("--databases", options->databases, "a file with a line SERVICE=URL for each service");
    command->add_option("--grace", options->grace_ms, "what is younger may still be under way [5m]: 30s, 5m, 2h")
        ->transform(milliseconds_with_unit() & CLI::Range(std::int64_t{0}, std::int64_t{86'400'000}));
    command
        ->add_option("--again", options->again_ms,
                     "without --against: how long after the first look the second one confirms it [5s]")
        ->transform(milliseconds_with_unit() & CLI::Range(std::int64_t{0}, std::int64_t{600'000}));
    command->add_option("--rows", options->rows_max, "how many findings are shown; all are counted")
        ->capture_default_str();
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [options, &out] { return audit_or_say_why_not(*options, out); }; });
}

}  // namespace skald::tools
