// `skald outbox status`: what waits for the broker, for how long, and why.
#include "commands.hpp"
#include "database.hpp"

#include "core/text.hpp"
#include "skald_operator_queries.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <pqxx/pqxx>

#include <cstdint>
#include <memory>
#include <optional>

namespace skald::tools {
namespace {

std::string query(std::string_view text)
{
    return std::string{text};
}

/// If one of these is exceeded, the exit code is 1.
struct outbox_limits
{
    std::optional<std::int64_t> rows;
    std::optional<std::int64_t> age_seconds;
};

int outbox_status(outbox_limits const& limits, output const& out)
{
    auto c = connect("outbox");

    auto const total = c.run(query(operator_queries::outbox_totals))[0];
    auto const rows = total[0].as<std::int64_t>();
    auto const oldest = total[1].as<std::int64_t>();
    nlohmann::json object{{"rows", rows},
                          {"oldest_seconds", oldest},
                          {"due", total[2].as<std::int64_t>()},
                          {"deferred", total[3].as<std::int64_t>()},
                          {"destinations", nlohmann::json::array()},
                          {"reasons", nlohmann::json::array()}};
    auto sentence = rows == 0 ? std::string{"the outbox is empty"}
                              : fmt::format("{} messages wait, the oldest for {} s; {} are due, {} were put off", rows,
                                            oldest, total[2].c_str(), total[3].c_str());
    for (auto const& row : c.run(query(operator_queries::outbox_by_destination))) {
        object["destinations"].push_back({{"destination", row[0].c_str()},
                                          {"rows", row[1].as<std::int64_t>()},
                                          {"oldest_seconds", row[2].as<std::int64_t>()},
                                          {"deferred", row[3].as<std::int64_t>()}});
        sentence += fmt::format("\nto {}: {}, the oldest for {} s, {} put off", core::visible_text(row[0].c_str()),
                                row[1].c_str(), row[2].c_str(), row[3].c_str());
    }
    for (auto const& row : c.run(query(operator_queries::outbox_by_reason))) {
        object["reasons"].push_back({{"destination", row[0].c_str()},
                                     {"reason", row[1].c_str()},
                                     {"rows", row[2].as<std::int64_t>()},
                                     {"attempts_max", row[3].as<std::int64_t>()}});
        sentence += fmt::format("\nput off, to {}: {} (up to {} attempts): {}", core::visible_text(row[0].c_str()),
                                row[2].c_str(), row[3].c_str(), core::visible_text(row[1].c_str()));
    }
    bool const over = (limits.rows && rows > *limits.rows) || (limits.age_seconds && oldest > *limits.age_seconds);
    object["over"] = over;
    if (over) sentence += "\nthat is over the limit given";
    out.tell(sentence, object);
    return over ? 1 : 0;
}

}  // namespace

void add_outbox_commands(CLI::App& app, output& out, choice& chosen)
{
    auto* const outbox = app.add_subcommand("outbox", "the messages that wait for the broker");
    outbox->require_subcommand(1);
    auto* const status = outbox->add_subcommand("status", "how many, for how long, for whom, and why");
    auto const limits = std::make_shared<outbox_limits>();
    status->add_option("--warn-rows", limits->rows, "exit with 1 where more than that wait")
        ->check(CLI::NonNegativeNumber);
    status->add_option("--warn-age", limits->age_seconds, "exit with 1 where one waits for more than that many seconds")
        ->check(CLI::NonNegativeNumber);
    out.add_flag(*status);
    status->callback([=, &out, &chosen] { chosen = [limits, &out] { return outbox_status(*limits, out); }; });
}

}  // namespace skald::tools
