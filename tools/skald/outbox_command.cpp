// `skald outbox status`: what waits for the broker, for how long, and why.
#include "commands.hpp"

#include "postgres/connection.hpp"
#include "skald_operator_queries.hpp"

#include <skald/config.hpp>

#include <pqxx/pqxx>

#include <fmt/format.h>

namespace skald::tools {
namespace {

std::string query(std::string_view text)
{
    return std::string{text};
}

}  // namespace

int outbox_status(outbox_limits const& limits, output const& out)
{
    auto const settings = config::from_environment("outbox");
    postgres::connection_options database;
    database.url = settings.database_url;
    database.application_name = "skald/outbox";
    postgres::connection c{database};

    auto const total = c.run(query(operator_queries::outbox_totals))[0];
    auto const rows = total[0].as<std::int64_t>();
    auto const oldest = total[1].as<std::int64_t>();
    nlohmann::json object{{"rows", rows},
                          {"oldest_seconds", oldest},
                          {"due", total[2].as<std::int64_t>()},
                          {"put_off", total[3].as<std::int64_t>()},
                          {"destinations", nlohmann::json::array()},
                          {"reasons", nlohmann::json::array()}};
    auto sentence = rows == 0 ? std::string{"the outbox is empty"}
                              : fmt::format("{} messages wait, the oldest for {} s; {} are due, {} were put off", rows,
                                            oldest, total[2].c_str(), total[3].c_str());
    for (auto const& row : c.run(query(operator_queries::outbox_by_destination))) {
        object["destinations"].push_back({{"destination", row[0].c_str()},
                                          {"rows", row[1].as<std::int64_t>()},
                                          {"oldest_seconds", row[2].as<std::int64_t>()},
                                          {"put_off", row[3].as<std::int64_t>()}});
        sentence += fmt::format("\nto {}: {}, the oldest for {} s, {} put off", row[0].c_str(), row[1].c_str(),
                                row[2].c_str(), row[3].c_str());
    }
    for (auto const& row : c.run(query(operator_queries::outbox_by_reason))) {
        object["reasons"].push_back({{"destination", row[0].c_str()},
                                     {"reason", row[1].c_str()},
                                     {"rows", row[2].as<std::int64_t>()},
                                     {"tries_max", row[3].as<std::int64_t>()}});
        sentence += fmt::format("\nput off, to {}: {} (up to {} tries): {}", row[0].c_str(), row[2].c_str(),
                                row[3].c_str(), row[1].c_str());
    }
    bool const over = (limits.rows && rows > *limits.rows) || (limits.age_seconds && oldest > *limits.age_seconds);
    object["over"] = over;
    if (over) sentence += "\nthat is over the limit given";
    out.tell(sentence, object);
    return over ? 1 : 0;
}

}  // namespace skald::tools
