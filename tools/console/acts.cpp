#include "acts.hpp"

#include "admin/commands.hpp"
#include "admin/parked_deliveries.hpp"
#include "postgres/literal.hpp"
#include "skald_console_queries.hpp"

#include <fmt/format.h>
#include <pqxx/pqxx>

#include <array>
#include <charconv>
#include <map>

namespace skald::console {
namespace {

constexpr std::array<std::string_view, 6> names{"cancel", "pause", "resume", "retry", "replay", "drop"};

std::optional<std::int64_t> parse_id(std::string_view text)
{
    std::int64_t id{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    bool const is_number = error == std::errc{} && end == text.data() + text.size() && id > 0;
    return is_number ? std::optional{id} : std::nullopt;
}

std::vector<prospect> look_at_sagas(postgres::connection& c, verb what, std::vector<target> const& targets)
{
    std::vector<std::string> scopes, keys;
    for (auto const& one : targets) {
        scopes.push_back(one.scope);
        keys.push_back(one.key);
    }
    auto const rows =
        c.run(postgres::filled_in(queries::saga_preview{.action = name_of(what), .scopes = scopes, .keys = keys}));
    std::vector<prospect> found;
    for (auto const& row : rows)
        found.push_back({targets[found.size()], row["definition"].c_str(), row["status"].c_str(),
                         row["refused"].c_str(), false, row["asked_before"].c_str()});
    return found;
}

std::vector<prospect> look_at_parked(postgres::connection& c, verb what, std::vector<target> const& targets)
{
    std::vector<std::int64_t> ids;
    ids.reserve(targets.size());
    for (auto const& one : targets) ids.push_back(one.id);
    std::vector<prospect> found;
    for (auto const& row : c.run(postgres::filled_in(queries::parked_preview{.ids = ids}))) {
        prospect one{targets[found.size()], row["step"].c_str(), row["reason"].c_str(), row["refused"].c_str(),
                     row["is_waited_for"].as<bool>()};
        one.of.scope = row["scope"].c_str();
        one.of.key = row["key"].c_str();
        bool const is_there = !one.state.empty();
        if (what == verb::drop && is_there) one.refused.clear();
        if (what == verb::replay && one.refused.empty() && one.state == "unsigned")
            one.refused = fmt::format("it has no signature: find out who sent it, and check its headers and its body. "
                                      "`skald parked replay {} --vouch` then signs and sends it",
                                      one.of.id);
        found.push_back(std::move(one));
    }
    return found;
}

std::string joined(nlohmann::json const& services)
{
    std::string text;
    for (auto const& one : services) text += (text.empty() ? "" : ", ") + one.get<std::string>();
    return text;
}

result command_saga(postgres::connection& c, order const& what, target const& of)
{
    auto const done = admin::issue(c, {name_of(what.what), {of.scope, of.key}, what.reason, what.by});
    if (done.contains("refused")) return {of, result::outcome::refused, done["refused"].get<std::string>()};
    auto const step = done.contains("step") ? " of " + done["step"].get<std::string>() : std::string{};
    auto const left =
        done.contains("left") ? "; it does not end by this: " + done["left"].get<std::string>() : std::string{};
    return {of, result::outcome::done,
            fmt::format("{}{}: sent to {}{}", name_of(what.what), step, joined(done["told"]), left)};
}

result handle_parked(postgres::connection& c, order const& what, target const& of)
{
    auto const refused = what.what == verb::replay ? admin::replay_parked(c, of.id, what.by, false, false, what.reason)
                                                   : admin::drop_parked(c, of.id, what.reason, what.by, what.forced);
    if (refused) return {of, result::outcome::refused, *refused};
    return {of, result::outcome::done, what.what == verb::replay ? "put back into the outbox" : "dropped"};
}

result carry_out_one(database& db, order const& what, target const& of)
try {
    return db.ask([&](postgres::connection& c) {
        auto ended = is_of_parked(what.what) ? handle_parked(c, what, of) : command_saga(c, what, of);
        if (ended.is != result::outcome::done || c.warning().empty()) return ended;
        return result{of, result::outcome::in_doubt, std::string{admin::not_replicated}};
    });
}
catch (away const& why) {
    switch (why.kind) {
    case away::how::refused: return {of, result::outcome::refused, fmt::format("not done: {}", why.what())};
    case away::how::not_reached: return {of, result::outcome::not_tried, fmt::format("not tried: {}", why.what())};
    case away::how::lost: break;
    }
    return {of, result::outcome::in_doubt,
            fmt::format("may have been done, since its connection broke on the way: {}", why.what())};
}

}  // namespace

std::optional<verb> parse_verb(std::string const& text)
{
    for (std::size_t i = 0; i < names.size(); ++i)
        if (names[i] == text) return static_cast<verb>(i);
    return std::nullopt;
}

std::string name_of(verb what)
{
    return std::string{names.at(static_cast<std::size_t>(what))};
}

bool is_of_parked(verb what)
{
    return what == verb::replay || what == verb::drop;
}

std::optional<target> parse_target(verb what, std::string const& text)
{
    // A browser may send line feeds of a value as CR LF.
    std::vector<std::string> words{""};
    for (char const c : text) {
        if (c == '\n') words.emplace_back();
        else if (c != '\r') words.back() += c;
    }
    if (!is_of_parked(what)) {
        if (words.size() != 3 || words[2].empty()) return std::nullopt;
        return target{words[0], words[1], words[2], 0};
    }
    if (words.size() != 2) return std::nullopt;
    auto const id = parse_id(words[1]);
    return id ? std::optional{target{words[0], {}, {}, *id}} : std::nullopt;
}

std::string write_target(verb what, target const& of)
{
    return is_of_parked(what) ? of.service + '\n' + std::to_string(of.id)
                              : of.service + '\n' + of.scope + '\n' + of.key;
}

std::vector<prospect> look_ahead(databases const& all, verb what, std::vector<target> const& targets)
{
    std::map<std::string, std::vector<target>> by_service;
    for (auto const& one : targets) by_service[one.service].push_back(one);
    std::vector<prospect> found;
    for (auto const& one_service : by_service) {
        auto const& service = one_service.first;
        auto const& those = one_service.second;
        std::vector<prospect> here;
        auto* const db = all.find(service);
        try {
            if (db == nullptr)
                throw away{service, "this console was not given the address of " + service, away::how::not_reached};
            here = db->ask([&](postgres::connection& c) {
                return is_of_parked(what) ? look_at_parked(c, what, those) : look_at_sagas(c, what, those);
            });
        }
        catch (away const& why) {
            for (auto const& one : those) here.push_back({one, {}, {}, service + ": " + why.what(), false});
        }
        found.insert(found.end(), here.begin(), here.end());
    }
    return found;
}

std::vector<result> carry_out(databases const& all, order const& what, std::vector<target> const& targets,
                              std::chrono::milliseconds within)
{
    auto const until = std::chrono::steady_clock::now() + within;
    std::vector<result> results;
    for (auto const& one : targets) {
        if (std::chrono::steady_clock::now() >= until) {
            results.push_back({one, result::outcome::not_tried,
                               fmt::format("not tried: those before it took {} s",
                                           std::chrono::ceil<std::chrono::seconds>(within).count())});
            continue;
        }
        auto* const db = all.operating(one.service);
        results.push_back(db == nullptr
                              ? result{one, result::outcome::refused, "this console only reads " + one.service}
                              : carry_out_one(*db, what, one));
    }
    return results;
}

}  // namespace skald::console
