#include "admin/saga_versions.hpp"

#include "postgres/literal.hpp"
#include "skald_version_queries.hpp"

#include <fmt/format.h>
#include <pqxx/pqxx>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>

namespace skald::admin {
namespace {

using nlohmann::json;
namespace vq = version_queries;

constexpr int places_of = 1'000;  // sagas of each version

bool has_versions(postgres::connection& c)
{
    return c.run(std::string{vq::has_versions})[0]["has_versions"].as<bool>();
}

json none_of(std::string const& definition, int version)
{
    return {
        {"definition", definition},  {"version", version},      {"sagas", 0},     {"stuck", 0},     {"oldest", nullptr},
        {"oldest_seconds", nullptr}, {"places", json::array()}, {"places_of", 0}, {"is_home", true}};
}

}  // namespace

json saga_versions(postgres::connection& c)
{
    std::map<std::string, std::map<int, json, std::greater<>>> all;
    if (has_versions(c)) {
        for (auto const& row : c.run(std::string{vq::known_versions})) {
            std::string const definition = row["definition"].c_str();
            auto const version = row["version"].as<int>();
            all[definition][version] = none_of(definition, version);
            all[definition][version]["is_home"] = row["is_home"].as<bool>();
        }
    }
    for (auto const& row : c.run(postgres::filled_in(vq::versions_under_way{.examined_max = places_of}))) {
        auto one = none_of(row["definition"].c_str(), row["version"].as<int>());
        one["sagas"] = row["sagas"].as<std::int64_t>();
        one["stuck"] = row["stuck"].as<std::int64_t>();
        one["oldest"] = row["oldest"].c_str();
        one["oldest_seconds"] = row["oldest_seconds"].as<std::int64_t>();
        one["places"] = json::parse(row["places"].c_str());
        one["places_of"] = std::min<std::int64_t>(row["sagas"].as<std::int64_t>(), places_of);
        all[row["definition"].c_str()][row["version"].as<int>()] = std::move(one);
    }
    json said{{"versions", json::array()}};
    for (auto& [definition, versions] : all) {
        auto const newest = versions.begin()->first;
        for (auto& [version, one] : versions) {
            // Elsewhere sagas of it may be under way that this database knows nothing of.
            one["may_be_removed"] = one["is_home"] == true && version != newest && one["sagas"] == 0;
            said["versions"].push_back(std::move(one));
        }
    }
    return said;
}

std::string places_in_words(json const& version)
{
    std::string text;
    for (auto const& one : version["places"]) {
        auto const step = one["step"].get<std::string>(), status = one["status"].get<std::string>();
        auto const where = step.empty()            ? std::string{"before the first step"}
                           : status == "completed" ? "after " + step
                                                   : fmt::format("at {} ({})", step, status);
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", where, one["sagas"].get<std::int64_t>());
    }
    if (version["places_of"] == version["sagas"]) return text;
    return fmt::format("of the oldest {}: {}", version["places_of"].get<std::int64_t>(), text);
}

void record_unreadable(postgres::connection& c, std::vector<unreadable_data> const& all)
{
    std::vector<std::string> definitions, whats;
    std::vector<std::int64_t> versions;
    for (auto const& one : all) {
        definitions.push_back(one.definition);
        versions.push_back(one.version);
        whats.push_back(in_words(one));
    }
    c.run(postgres::filled_in(vq::record_unreadable{.definitions = definitions, .versions = versions, .whats = whats}));
}

void record_versions(postgres::connection& c, std::vector<std::pair<std::string, int>> const& all)
{
    if (all.empty() || !has_versions(c)) return;
    std::vector<std::string> definitions;
    std::vector<std::int64_t> versions;
    for (auto const& [definition, version] : all) {
        definitions.push_back(definition);
        versions.push_back(version);
    }
    c.run(postgres::filled_in(vq::record_versions{.definitions = definitions, .versions = versions}));
}

}  // namespace skald::admin
