#include "postgres/claim_text.hpp"

#include "core/reasons.hpp"
#include "core/text.hpp"
#include "postgres/header_json.hpp"
#include "postgres/literal.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace skald::postgres {
namespace {

ports::claim_result parse_claim_result(std::string_view text)
{
    constexpr std::array<std::string_view, 8> names{"fresh",    "retry",     "duplicate", "in_flight",
                                                    "mismatch", "cancelled", "paused",    "closed"};
    auto const it = std::find(names.begin(), names.end(), text);
    if (it == names.end()) throw std::logic_error{"skald.claim gave the unknown result " + std::string{text}};
    return static_cast<ports::claim_result>(it - names.begin());
}

ports::cancel_cause parse_cause(std::string_view text)
{
    constexpr std::array<std::string_view, 5> names{"", "operator", "deadline", core::nothing_to_undo, "home"};
    auto const it = std::find(names.begin(), names.end(), text);
    if (it == names.end()) throw std::logic_error{"skald.claim gave the unknown cause " + std::string{text}};
    return static_cast<ports::cancel_cause>(it - names.begin());
}

bool any_deadline(std::span<ports::claim_item const> items)
{
    return std::ranges::any_of(items, [](ports::claim_item const& item) { return item.deadline.has_value(); });
}

}  // namespace

std::string claim_text(std::span<ports::claim_item const> items, std::optional<std::chrono::milliseconds> wait)
{
    std::vector<std::string> scopes, keys, steps, fingerprints, homes;
    std::vector<std::int64_t> fencing_tokens;
    std::vector<bool> past_pivot;
    std::vector<std::string> deadlines;
    for (auto const& item : items) {
        scopes.push_back(item.saga.scope);
        keys.push_back(item.saga.key);
        steps.push_back(item.step);
        fingerprints.push_back(item.fingerprint);
        fencing_tokens.push_back(item.fencing_token);
        past_pivot.push_back(item.past_pivot);
        homes.push_back(item.home);
        deadlines.push_back(item.deadline ? core::write_instant(*item.deadline) : "infinity");
    }
    return execute("claim", {array_literal(scopes), array_literal(keys), array_literal(steps),
                             bytes_array_literal(fingerprints), array_literal(fencing_tokens, "integer"),
                             array_literal(past_pivot), wait ? literal(wait->count()) : "NULL",
                             any_deadline(items) ? array_literal(deadlines) : "NULL", array_literal(homes)});
}

std::string claim_request_text(ports::claim_item const& item, std::optional<std::chrono::milliseconds> wait)
{
    return execute("claim_request", {literal(item.saga.scope), literal(item.saga.key), bytes_literal(item.fingerprint),
                                     wait ? literal(wait->count()) : "NULL"});
}

ports::claim_answer read_claim(pqxx::row const& row)
{
    return {parse_claim_result(row[1].c_str()), row[2].as<int>(), row[3].as<bool>(), parse_cause(row[4].c_str()),
            row[5].c_str()};
}

std::optional<ports::stored_response> read_stored_response(pqxx::row const& row, core::saga_id const& saga)
{
    if (row[10].is_null()) return {};
    return ports::stored_response{saga, row[10].as<int>(), row[11].c_str(), read_fields(row[12].c_str()),
                                  core::from_hex(row[13].c_str())};
}

}  // namespace skald::postgres
