// find_saga() and the commands, declared in skald/saga.hpp.
#include <skald/saga.hpp>

#include "core/instant.hpp"
#include "postgres/literal.hpp"
#include "skald_queries.hpp"

#include <skald/detail/data.hpp>
#include <skald/errors.hpp>

#include <pqxx/pqxx>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace skald {
namespace {

std::optional<core::instant> time_in(pqxx::field const& field)
{
    if (field.is_null()) return {};
    return core::parse_instant(field.c_str()).value();
}

void command(pqxx::transaction_base& tx, std::string_view action, std::string_view key, command_options const& options)
{
    auto const rows = postgres::run_in(tx, queries::request_control{.action = action,
                                                                    .scope = options.scope,
                                                                    .key = key,
                                                                    .reason = options.reason,
                                                                    .requested_by = options.by});
    auto const answer = nlohmann::json::parse(rows[0]["answer"].c_str());
    if (auto const refused = answer.find("refused"); refused != answer.end())
        throw command_refused{"the saga " + std::string{key} + ": " + refused->get<std::string>()};
}

}  // namespace

std::optional<saga_info> find_saga(pqxx::transaction_base& tx, std::string_view key, std::string_view scope)
{
    auto const rows = postgres::run_in(tx, queries::find_saga{.scope = scope, .key = key});
    if (rows.empty()) return {};
    auto const row = rows[0];
    saga_info found;
    found.scope = scope;
    found.key = key;
    found.definition = row["definition"].c_str();
    found.version = row["version"].as<int>();
    found.status = row["status"].c_str();
    found.reason = row["reason"].is_null() ? "" : row["reason"].c_str();
    found.data = row["data"].c_str();
    found.started_at = time_in(row["created_at"]).value();
    found.deadline_at = time_in(row["deadline_at"]);
    found.finished_at = time_in(row["finished_at"]);
    return found;
}

void cancel_saga(pqxx::transaction_base& tx, std::string_view key, command_options const& options)
{
    command(tx, "cancel", key, options);
}

void retry_saga(pqxx::transaction_base& tx, std::string_view key, command_options const& options)
{
    command(tx, "retry", key, options);
}

void pause_saga(pqxx::transaction_base& tx, std::string_view key, command_options const& options)
{
    command(tx, "pause", key, options);
}

void resume_saga(pqxx::transaction_base& tx, std::string_view key, command_options const& options)
{
    command(tx, "resume", key, options);
}

signal_result signal_saga(pqxx::transaction_base& tx, std::string_view key, std::string_view step,
                          std::string_view body, std::string_view scope)
{
    auto const checked = detail::parse_checked(body).dump();
    auto const rows =
        postgres::run_in(tx, queries::send_signal{.scope = scope, .key = key, .step = step, .body = checked});
    constexpr std::array<std::string_view, 8> names{"kept", "sent",    "duplicate", "mismatch",
                                                    "late", "no saga", "no step",   "no wait"};
    auto const it = std::ranges::find(names, std::string_view{rows[0]["outcome"].c_str()});
    if (it == names.end()) throw std::logic_error{"skald.send_signal gave an unknown result"};
    return static_cast<signal_result>(it - names.begin());
}

void resolve_call(pqxx::transaction_base& tx, std::string_view key, std::string_view step,
                  std::optional<std::string_view> result, command_options const& options)
{
    auto const answer = result ? R"({"happened": )" + detail::parse_checked(*result).dump() + '}'
                               : nlohmann::json{{"did_not_happen", options.reason}}.dump();
    auto const rows = postgres::run_in(tx, queries::resolve_step{.scope = options.scope,
                                                                 .key = key,
                                                                 .step = step,
                                                                 .answer = answer,
                                                                 .reason = options.reason,
                                                                 .by = options.by});
    if (!rows[0]["refusal"].is_null()) throw command_refused{rows[0]["refusal"].c_str()};
}

}  // namespace skald
