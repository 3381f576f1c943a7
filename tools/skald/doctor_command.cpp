// `skald doctor`: do this database and this broker provide what Skald relies on?
#include "commands.hpp"
#include "database.hpp"
#include "doctor.hpp"
#include "kafka_commands.hpp"

#include "worker/transports.hpp"

#include <skald/config.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace skald::tools {
namespace {

constexpr std::array<std::string_view, 3> level_names{"ok", "warning", "problem"};

std::string_view name_of(health level)
{
    return level_names[static_cast<std::size_t>(level)];
}

// Messages from libraries may have several lines; a check has one.
std::string on_one_line(std::string text)
{
    std::ranges::replace_if(
        text, [](char c) { return c == '\n' || c == '\t'; }, ' ');
    while (text.ends_with(' ')) text.pop_back();
    return text;
}

int doctor(output const& out)
{
    auto const settings = config::from_environment();
    findings found;
    auto const at_broker = examine_database(settings.database_url, !worker_detail::has_no_broker(settings), found);
    examine_bodies(settings, at_broker.owner, found);
    if (!at_broker.has_broker) examine_inbox(settings, at_broker.owner, found);
    else if (!worker_detail::uses_rabbitmq(settings)) examine_kafka(settings, at_broker, found);
    else if (std::getenv("AMQP_URL") != nullptr || std::getenv("AMQP_URL_FILE") != nullptr)
        examine_broker(broker_url(settings), at_broker, settings.declare, found);
    else
        found.push_back(
            {"broker", health::warning, "not examined: AMQP_URL is not set", "set AMQP_URL to the services' broker"});

    for (auto& one : found) one.means = on_one_line(std::move(one.means));
    auto const count = [&](health level) { return std::ranges::count(found, level, &finding::level); };
    nlohmann::json object{{"service", at_broker.owner.service},
                          {"problems", count(health::problem)},
                          {"warnings", count(health::warning)},
                          {"checks", nlohmann::json::array()}};
    std::string text;
    for (auto const& one : found) {
        object["checks"].push_back(
            {{"check", one.check}, {"level", name_of(one.level)}, {"means", one.means}, {"remedy", one.remedy}});
        text += fmt::format("{:<8} {:<22} {}{}{}\n", name_of(one.level), one.check, one.means,
                            one.remedy.empty() ? "" : "; ", one.remedy);
    }
    auto const counted = [&](health level, std::string_view name) {
        return fmt::format("{} {}{}", count(level), name, count(level) == 1 ? "" : "s");
    };
    out.tell(text + counted(health::problem, "problem") + ", " + counted(health::warning, "warning"), object);
    return count(health::problem) > 0 ? 1 : 0;
}

}  // namespace

void add_doctor_command(CLI::App& app, output& out, choice& chosen)
{
    auto* const command =
        app.add_subcommand("doctor", "examine the database and the broker; exit with 1 for a problem");
    out.add_flag(*command);
    command->callback([&out, &chosen] { chosen = [&out] { return doctor(out); }; });
}

}  // namespace skald::tools
