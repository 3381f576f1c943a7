// Sagas by what their definitions name: attributes. See docs/finding.md.
#pragma once

#include "core/identity.hpp"
#include "postgres/connection.hpp"
#include "postgres/literal.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace skald::admin {

/// Names and values, all of which a saga has.
using attribute_conditions = std::vector<std::pair<std::string, std::string>>;

/// Of `customer=bob`. Throws std::invalid_argument for anything else.
attribute_conditions read_conditions(std::vector<std::string> const& texts);

/// As two arrays, for a statement.
struct condition_arrays
{
    explicit condition_arrays(attribute_conditions const& all);
    std::vector<std::string> names, vals;
};

std::vector<std::string> attribute_names(postgres::connection& c);

/// {"customer": "bob"}: empty if it has none.
nlohmann::json attributes_of(postgres::connection& c, core::saga_id const& id);

/// Throws std::invalid_argument if one of the conditions is on an attribute that is not in `known`: it says which are.
void check_names(attribute_conditions const& all, std::vector<std::string> const& known);

inline constexpr std::int64_t examined_by_attribute = 2'000;

/// What a page of the list is of. NULL: any.
struct saga_search
{
    attribute_conditions const& where;
    postgres::parameter status = std::nullopt;
    postgres::parameter definition = std::nullopt;
    postgres::parameter scope = std::nullopt;
    postgres::parameter key_from = std::nullopt;   // its beginning
    postgres::parameter key_until = std::nullopt;  // the first text behind all that begin so
    postgres::parameter reason = std::nullopt;
    postgres::parameter older = std::nullopt;
    bool is_under_way{};  // the status is one of sagas that have not ended
    // After that one; `home` is the database's, and matters where several are searched.
    postgres::parameter after_time = std::nullopt;
    std::string home{}, after_home{}, after_scope{}, after_key{};
    std::int64_t examined_max{examined_by_attribute};  // sagas that one page may look at
    int rows_max{};
};

/// The statement for sagas that have not ended, the oldest first, those that are stuck if and only if that is the
/// status; and for those that have, the latest ended first. Not by attributes, nor by keys.
std::string open_query(saga_search const& wanted);
std::string ended_query(saga_search const& wanted);

/// The statement for sagas with all of the attributes, the latest started first. Looks first what narrows the search
/// most: the rarest attribute, or the status.
std::string attribute_query(postgres::connection& c, saga_search const& wanted);

}  // namespace skald::admin
