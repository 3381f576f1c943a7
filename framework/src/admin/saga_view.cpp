#include "admin/saga_view.hpp"

#include "core/itinerary.hpp"
#include "postgres/literal.hpp"

#include <pqxx/pqxx>

#include <array>
#include <map>

namespace skald::admin {
namespace {

using nlohmann::json;

json or_null(pqxx::field const& field)
{
    return field.is_null() ? json(nullptr) : json(field.c_str());
}

json record(pqxx::row const& row)
{
    json r{{"status", row["status"].c_str()}, {"attempts", row["attempts"].as<int>()}, {"at", row["at"].c_str()}};
    if (!row["error"].is_null() && *row["error"].c_str() != '\0') r["error"] = row["error"].c_str();
    return r;
}

json step_of(core::itinerary_step const& planned, std::map<std::string, json> const& records)
{
    constexpr std::array<std::string_view, 3> kinds{"compensatable", "pivot", "retriable"};
    json step{{"name", planned.name},
              {"service", planned.service},
              {"kind", kinds[static_cast<std::size_t>(planned.kind)]},
              {"status", "pending"},
              {"attempts", 0}};
    if (auto const it = records.find(planned.name); it != records.end()) step.update(it->second);
    auto const undo = records.find(planned.name + std::string{core::compensate_suffix});
    if (undo != records.end()) step["compensation"] = undo->second;
    return step;
}

}  // namespace

std::optional<json> show_saga(postgres::connection& c, core::saga_id const& id)
{
    auto const identity = {postgres::literal(id.scope), postgres::literal(id.key)};
    auto const sagas = c.run(postgres::execute("show_saga", identity));
    if (sagas.empty()) return std::nullopt;

    std::map<std::string, json> records;
    for (auto const& row : c.run(postgres::execute("show_steps", identity))) records[row["step"].c_str()] = record(row);

    auto const& saga = sagas[0];
    json view{{"key", id.key},
              {"scope", id.scope},
              {"definition", saga["definition"].c_str()},
              {"status", saga["status"].c_str()},
              {"reason", or_null(saga["reason"])},
              {"created_at", saga["created_at"].c_str()},
              {"finished_at", or_null(saga["finished_at"])},
              {"steps", json::array()}};
    if (auto const plan = core::parse_itinerary(saga["itinerary"].c_str()))
        for (auto const& step : plan->steps) view["steps"].push_back(step_of(step, records));
    return view;
}

}  // namespace skald::admin
