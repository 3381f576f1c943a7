#include "admin/saga_view.hpp"

#include "core/itinerary.hpp"
#include "core/reasons.hpp"
#include "postgres/literal.hpp"
#include "skald_queries.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>

namespace skald::admin {
namespace {

using nlohmann::json;

// The enum's value of that name; the database's enums have the same names.
template <class Enum>
Enum parse(std::string_view text, Enum last)
{
    for (int i = 0; i <= static_cast<int>(last); ++i)
        if (core::name_of(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
    throw std::logic_error{"the database has the unknown status " + std::string{text}};
}

core::instant instant_of(pqxx::field const& field)
{
    return core::parse_instant(field.c_str()).value();
}

std::optional<core::instant> maybe_instant_of(pqxx::field const& field)
{
    return field.is_null() ? std::nullopt : core::parse_instant(field.c_str());
}

// Milliseconds are precise enough for a reader.
json shown(std::optional<core::instant> at)
{
    return at ? json(core::write_instant(*at).erase(23, 3)) : json(nullptr);
}

json or_null(std::string const& text)
{
    return text.empty() ? json(nullptr) : json(text);
}

json to_json(step_record const& record)
{
    json r{{"status", core::name_of(record.status)}, {"attempts", record.attempts}, {"at", shown(record.at)}};
    if (!record.error.empty()) r["error"] = record.error;
    return r;
}

json to_json(step_facts const& step)
{
    constexpr std::array<std::string_view, 3> kinds{"compensatable", "pivot", "retriable"};
    json s{{"name", step.name},
           {"service", step.service},
           {"kind", kinds[static_cast<std::size_t>(step.kind)]},
           {"status", "pending"},
           {"attempts", 0}};
    if (step.record) s.update(to_json(*step.record));
    if (step.compensation) s["compensation"] = to_json(*step.compensation);
    return s;
}

step_record record_of(pqxx::row const& row)
{
    return {parse(row["status"].c_str(), core::step_status::unknown), row["attempts"].as<int>(), row["error"].c_str(),
            instant_of(row["at"]), row["service"].c_str()};
}

// The reason that a step gave for its rejection; empty if it gave none, or failed instead.
std::string_view given_reason(std::optional<step_record> const& record)
{
    bool const said_no = record && record->status == core::step_status::rejected;
    return said_no ? core::reason_for_customers(record->error) : std::string_view{};
}

std::vector<step_facts> steps_of(std::string_view itinerary, pqxx::result const& rows)
{
    std::map<std::string, step_record> records;
    for (auto const& row : rows) records.emplace(row["step"].c_str(), record_of(row));
    auto const find = [&](std::string const& step) {
        auto const it = records.find(step);
        return it == records.end() ? std::nullopt : std::optional{it->second};
    };
    std::vector<step_facts> steps;
    if (auto const plan = core::parse_itinerary(itinerary))
        for (auto const& s : plan->steps)
            steps.push_back(
                {s.name, s.service, s.kind, find(s.name), find(s.name + std::string{core::compensate_suffix})});
    return steps;
}

}  // namespace

std::optional<saga_facts> find_saga(postgres::connection& c, core::saga_id const& id)
{
    auto const rows = c.run(postgres::execute(queries::show_saga{.scope = id.scope, .key = id.key}));
    if (rows.empty()) return std::nullopt;
    auto const& row = rows[0];

    saga_facts saga;
    saga.id = id;
    saga.definition = row["definition"].c_str();
    saga.status = parse(row["status"].c_str(), core::saga_state::unknown);
    saga.reason = row["reason"].c_str();
    saga.created_at = instant_of(row["created_at"]);
    saga.now = instant_of(row["now"]);
    saga.finished_at = maybe_instant_of(row["finished_at"]);
    saga.can_be_cancelled = row["can_be_cancelled"].as<bool>();
    saga.past_pivot = row["past_pivot"].as<bool>();
    saga.deadline = maybe_instant_of(row["deadline_at"]);
    if (!row["action"].is_null())
        saga.command = command_facts{row["action"].c_str(), row["command_by"].c_str(), row["command_reason"].c_str(),
                                     instant_of(row["command_at"])};
    auto const steps = c.run(postgres::execute(queries::show_steps{.scope = id.scope, .key = id.key}));
    saga.steps = steps_of(row["itinerary"].c_str(), steps);
    return saga;
}

std::optional<definition_id> find_definition(pqxx::transaction_base& tx, core::saga_id const& id)
{
    auto const rows = postgres::run_in(tx, queries::definition_of_saga{.scope = id.scope, .key = id.key});
    if (rows.empty()) return {};
    return definition_id{rows[0]["definition"].c_str(), rows[0]["version"].as<int>()};
}

json to_json(saga_facts const& saga)
{
    json view{{"key", saga.id.key},
              {"scope", saga.id.scope},
              {"definition", saga.definition},
              {"status", core::name_of(saga.status)},
              {"reason", or_null(saga.reason)},
              {"created_at", shown(saga.created_at)},
              {"finished_at", shown(saga.finished_at)},
              {"deadline_at", shown(saga.deadline)},
              {"steps", json::array()}};
    for (auto const& step : saga.steps) view["steps"].push_back(to_json(step));
    return view;
}

json to_customer_json(saga_facts const& saga)
{
    auto view = to_json(saga);
    view["reason"] = nullptr;
    for (std::size_t i = 0; i < saga.steps.size(); ++i) {
        auto& step = view["steps"][i];
        step.erase("error");
        if (step.contains("compensation")) step["compensation"].erase("error");
        auto const reason = given_reason(saga.steps[i].record);
        if (reason.empty()) continue;
        step["reason"] = reason;
        if (view["reason"].is_null()) view["reason"] = reason;
    }
    return view;
}

json to_operator_json(saga_facts const& saga)
{
    auto view = to_json(saga);
    view["explanation"] = explain(saga);
    view["command"] = nullptr;
    if (auto const& given = saga.command)
        view["command"] = {
            {"action", given->action}, {"by", given->by}, {"at", shown(given->at)}, {"reason", or_null(given->reason)}};
    return view;
}

}  // namespace skald::admin
