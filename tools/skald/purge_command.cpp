// `skald purge`: does the maintenance thread's purge at once, and reports what is left.
#include "bodies.hpp"
#include "commands.hpp"
#include "database.hpp"

#include "admin/maintenance.hpp"
#include "ports/fault.hpp"
#include "postgres/literal.hpp"
#include "skald_queries.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <pqxx/pqxx>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

namespace skald::tools {
namespace {

struct purge_options
{
    std::optional<int> older_than;  // days; otherwise SKALD_RETENTION_DAYS
    bool dry_run{};
    int batch_max{500};
};

// Pause between two batches, so that running services do not notice.
constexpr std::chrono::milliseconds rest{100};

constexpr std::string_view why_postponed =
    "over 10,000 messages in the outbox are due, or over 100,000 wait there; purge again when the relay has caught up "
    "(`skald outbox status`)";

nlohmann::json as_json(admin::purged const& p)
{
    return {{"asked", p.asked}, {"sagas", p.sagas}, {"answers", p.answers}, {"expired", p.expired}};
}

std::string in_words(admin::purged const& p, bool is_done)
{
    return fmt::format(
        "{} {} sagas with all their records, {} answers without a saga, {} sagas of other homes; {} sagas {} "
        "the other services",
        is_done ? "purged" : "to purge now:", p.sagas, p.answers, p.expired, p.asked,
        is_done ? "asked of" : "to be asked of");
}

/// Sagas that wait for other services to expire them, by service.
nlohmann::json waiting(postgres::connection& c, std::string& sentence)
{
    auto by_service = nlohmann::json::array();
    for (auto const& row : c.run(postgres::execute("expiring"))) {
        by_service.push_back({{"service", row["service"].c_str()},
                              {"sagas", row["sagas"].as<std::int64_t>()},
                              {"since", row["since"].c_str()}});
        sentence += fmt::format("\nwaiting for {} to expire {} sagas, since {}", row["service"].c_str(),
                                row["sagas"].c_str(), row["since"].c_str());
    }
    return by_service;
}

/// Large bodies that are gone, and what became of the store, if it is apart.
struct bodies_result
{
    std::int64_t gone{};
    std::string store{"the database"};
    std::string why_not{};  // empty: it was purged
};

bodies_result purge_bodies(postgres::connection& c, config const& settings, int days)
{
    bodies_result done;
    done.store = settings.body_store == "database" ? done.store : settings.body_store;
    try {
        auto const store = body_store_of(settings, postgres::owner_of(c.raw()));
        ports::purge_place at;
        for (bool is_all = false; !is_all;) {
            auto const batch = admin::purge_bodies(c, store.get(), days, at);
            done.gone += batch.gone;
            is_all = batch.is_all;
        }
    }
    catch (ports::fault const& met) {
        done.why_not = met.what();
    }
    catch (configuration_error const& error) {
        done.why_not = error.what();
    }
    return done;
}

int preview(postgres::connection& c, int days, output const& out)
{
    auto const row = c.run(postgres::execute(queries::purgeable{.retention_days = days}))[0];
    admin::purged found;
    found.asked = row["asked"].as<std::int64_t>();
    found.sagas = row["sagas"].as<std::int64_t>();
    found.answers = row["answers"].as<std::int64_t>();
    found.expired = row["expired"].as<std::int64_t>();
    auto sentence = in_words(found, false) + "; large bodies that nothing has referred to for that long, which are "
                                             "not counted before";
    found.postponed = row["postponed"].as<bool>();
    if (found.postponed) sentence += fmt::format("\nit would be stopped at once: {}", why_postponed);
    auto object = as_json(found);
    object["dry_run"] = true;
    object["postponed"] = found.postponed;
    object["waiting"] = waiting(c, sentence);
    out.tell(sentence, object);
    return found.postponed ? 1 : 0;
}

int purge(purge_options const& options, output const& out)
{
    auto const settings = config::from_environment();
    int const days = options.older_than.value_or(settings.retention_days);
    if (days < 1 || days > 36'500)
        throw configuration_error{
            "--older-than: 1 to 36500 days; records are kept for a day at least, for a message that comes again must "
            "still meet them"};
    auto c = connect(settings, "purge");
    if (options.dry_run) return preview(c, days, out);

    admin::purged all;
    for (auto done = admin::purge_batch(c, days, options.batch_max);;
         done = admin::purge_batch(c, days, options.batch_max)) {
        all += done;
        if (!done.did_something()) break;
        std::this_thread::sleep_for(rest);
    }
    auto sentence = in_words(all, true);
    if (all.postponed) sentence += fmt::format("\nstopped: {}", why_postponed);
    auto const bodies = purge_bodies(c, settings, days);
    sentence += fmt::format("\nremoved {} large bodies from {}", bodies.gone, bodies.store);
    if (!bodies.why_not.empty()) sentence += ", and then no more: " + bodies.why_not;
    auto object = as_json(all);
    object["bodies"] = bodies.gone;
    if (!bodies.why_not.empty()) object["bodies_left"] = bodies.why_not;
    object["records"] = all.records;
    object["postponed"] = all.postponed;
    object["waiting"] = waiting(c, sentence);
    out.tell(sentence, object);
    return all.postponed || !bodies.why_not.empty() ? 1 : 0;
}

}  // namespace

void add_purge_command(CLI::App& app, output& out, choice& chosen)
{
    auto* const command = app.add_subcommand(
        "purge", "delete the records of sagas that ended long ago, and large bodies that nothing refers to");
    auto const options = std::make_shared<purge_options>();
    command->add_option("--older-than", options->older_than, "days since their end [SKALD_RETENTION_DAYS, or 30]");
    command->add_flag("--dry-run", options->dry_run, "only say what would be deleted");
    command->add_option("--batch", options->batch_max, "sagas in one transaction [500]")->check(CLI::Range(1, 1000));
    out.add_flag(*command);
    command->callback([=, &out, &chosen] { chosen = [options, &out] { return purge(*options, out); }; });
}

}  // namespace skald::tools
