#include "postgres/postgres_started.hpp"

#include "core/text.hpp"
#include "postgres/faults.hpp"
#include "postgres/header_json.hpp"
#include "postgres/literal.hpp"
#include "postgres/transaction_text.hpp"
#include "skald_queries.hpp"

#include <pqxx/pqxx>

namespace skald::postgres {
namespace {

std::optional<std::string> text_of(pqxx::field const& field)
{
    return field.is_null() ? std::optional<std::string>{} : field.c_str();
}

ports::started_steps::taken read_taken(pqxx::row const& row)
{
    ports::started_steps::taken t;
    t.id = {{row["scope"].c_str(), row["key"].c_str()}, row["step"].c_str(), row["fence"].as<int>()};
    t.kind = row["kind"].c_str() == ports::name_of(ports::started_kind::call) ? ports::started_kind::call
                                                                              : ports::started_kind::wait;
    t.was_in_doubt = row["was_in_doubt"].as<bool>();
    t.is_unshown = row["is_unshown"].as<bool>();
    t.calls = row["calls"].as<int>();
    t.looks = row["looks"].as<int>();
    t.tries = row["tries"].as<int>();
    t.checkpoint = text_of(row["checkpoint"]);
    t.answer = text_of(row["answer"]);
    t.error = row["error"].c_str();
    t.command = row["command"].c_str();
    t.command_reason = row["command_reason"].c_str();
    t.at = core::parse_instant(row["at"].c_str()).value();
    t.lease = std::chrono::milliseconds{row["lease"].as<std::int64_t>()};
    t.in_doubt_for = std::chrono::milliseconds{row["in_doubt_ms"].as<std::int64_t>()};
    t.left = std::chrono::milliseconds{row["left_ms"].as<std::int64_t>()};
    auto& m = t.message;
    m.id = row["message_id"].c_str();
    m.type = row["type"].c_str();
    m.content_type = row["content_type"].c_str();
    m.body = core::from_hex(row["body"].c_str());
    m.headers = read_headers(row["headers"].c_str());
    return t;
}

}  // namespace

pqxx::result postgres_started::run(std::string const& text)
try {
    if (!connection_ || !connection_->is_usable()) {
        connection_.reset();
        connection_ = std::make_unique<connection>(options_);
    }
    return connection_->run(text);
}
catch (pqxx::failure const&) {
    auto const met = classify_current_of_ours();
    if (says_read_only()) ++options_.server->node;
    if (met.connection_is_suspect || !connection_ || !connection_->is_open()) connection_.reset();
    throw met;
}

std::vector<ports::started_steps::taken> postgres_started::take(std::string_view owner, ports::started_kind kind,
                                                                std::string_view dependency, std::size_t most)
{
    std::vector<taken> all;
    for (auto const& row : run(execute(queries::take_started{
             .owner = owner, .kind = ports::name_of(kind), .dependency = dependency, .most = most})))
        all.push_back(read_taken(row));
    return all;
}

std::vector<ports::started_steps::taken> postgres_started::take_ending(std::string_view owner, std::size_t most)
{
    std::vector<taken> all;
    for (auto const& row : run(execute(queries::take_started{.owner = owner,
                           .kind = ports::name_of(ports::started_kind::call),
                           .dependency = std::nullopt,
                           .most = most})))
        all.push_back(read_taken(row));
    return all;
}

std::vector<ports::started_steps::renewal> postgres_started::renew(std::span<held const> all)
{
    std::vector<std::string> scopes, keys, steps, checkpoints;
    std::vector<std::int64_t> fences;
    for (auto const& one : all) {
        scopes.push_back(one.id.saga.scope);
        keys.push_back(one.id.saga.key);
        steps.push_back(one.id.step);
        fences.push_back(one.id.fence);
        checkpoints.push_back(one.checkpoint);
    }
    std::vector<renewal> renewed(all.size());
    for (auto const& row : run(execute(queries::renew_started{
             .scopes = scopes, .keys = keys, .steps = steps, .fences = fences, .checkpoints = checkpoints})))
        renewed.at(row["ord"].as<std::size_t>() - 1) = {true, row["is_extended"].as<bool>(), row["command"].c_str()};
    return renewed;
}

void postgres_started::note(std::string_view owner, breaker const& one)
{
    std::optional<std::int64_t> tries_in;
    if (one.tries_in) tries_in = one.tries_in->count();
    run(execute(queries::note_breaker{.owner = owner,
                                      .dependency = one.dependency,
                                      .state = one.state,
                                      .why = one.why,
                                      .ok = static_cast<std::int64_t>(one.ok),
                                      .failed = static_cast<std::int64_t>(one.failed),
                                      .slow = static_cast<std::int64_t>(one.slow),
                                      .tries_in = tries_in}));
}

ports::release_result postgres_started::release(ports::started_release const& what)
{
    using ports::release_result;
    auto const rows = run(release_text(what));
    auto const is_ours = rows[0]["is_ours"];
    if (is_ours.is_null()) return release_result::locked;
    return is_ours.as<bool>() ? release_result::released : release_result::not_ours;
}

}  // namespace skald::postgres
