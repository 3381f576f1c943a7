// The values of the framework's own statements, and how they are written into the text as SQL literals.
//
// A step in two round trips means that BEGIN goes with the claim, and the last writes with COMMIT: several statements
// in one query, for which PostgreSQL's protocol has no parameters. So values are written into the text: here, and
// nowhere else. The text around them is fixed; users' SQL always has parameters.
//
// The statements of sql/queries name their parameters (`:scope::text`). cmake/embed_sql.cmake makes a struct of each,
// with a member for each parameter, so that none can be forgotten, misspelt or put in another's place:
//
//     execute(queries::advance{.scope = id.scope, .key = id.key, .state = "stuck", .reason = std::nullopt})
//
// Relies on standard_conforming_strings = on and client_encoding = UTF8, which every connection of ours sets.
#pragma once

#include "core/instant.hpp"

#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace skald::postgres {

/// Bytes of any kind, for a bytea.
struct bytes
{
    std::string_view data;
};

/// The value of a parameter. Which type it has in SQL, the statement says.
///
/// Throws std::invalid_argument if a text is not well-formed UTF-8 without NUL: the server would reject that anyway,
/// and it has made quoting unsafe elsewhere (CVE-2025-1094).
class parameter
{
public:
    template <class Text>
    requires std::convertible_to<Text const&, std::string_view> parameter(Text const& text)
        : parameter{checked(text), form::quoted}
    {}
    parameter(bytes value);
    parameter(bool flag) : parameter{flag ? "true" : "false", form::bare} {}
    template <std::integral Number>
    requires(!std::same_as<Number, bool>) parameter(Number number) : parameter{std::to_string(number), form::bare} {}
    parameter(std::chrono::milliseconds time) : parameter{time.count()} {}
    parameter(core::instant at) : parameter{core::write_instant(at)} {}
    parameter(std::nullopt_t) : form_{form::null} {}
    template <class Value>
    parameter(std::optional<Value> const& value) : parameter{value ? parameter{*value} : parameter{std::nullopt}}
    {}
    parameter(std::vector<std::string> const& texts);
    parameter(std::vector<bytes> const& values);
    parameter(std::vector<std::int64_t> const& numbers);
    parameter(std::vector<bool> const& flags);

    /// `'it''s'`, `12`, `true`, `NULL`.
    std::string literal() const;
    void append_literal_to(std::string& sql) const;

    /// For the protocol's own parameters: the text, nullptr for NULL.
    char const* text() const { return form_ == form::null ? nullptr : text_.c_str(); }

private:
    enum class form { null, bare, quoted };
    parameter(std::string text, form how) : text_{std::move(text)}, form_{how} {}
    static std::string checked(std::string_view text);

    std::string text_;
    form form_;
};

/// NULL for an empty text.
parameter null_if_empty(std::string_view text);

/// `EXECUTE name(a, b);`, or `EXECUTE name;`
std::string execute(std::string_view name, std::span<parameter const* const> parameters = {});

/// The same for a statement of sql/queries that has parameters.
template <class Statement>
requires requires
{
    Statement::statement_name;
}
std::string execute(Statement const& statement)
{
    return execute(Statement::statement_name, statement.parameters());
}

/// The statement's text with literals in place of its parameters: for one that is not prepared.
std::string filled_in(std::string_view text, std::span<parameter const* const> parameters);

template <class Statement>
std::string filled_in(Statement const& statement)
{
    return filled_in(Statement::statement_text, statement.parameters());
}

/// Runs it in a transaction that is not ours, whose session may have any settings: with the protocol's parameters.
template <class Statement, class Transaction>
auto run_in(Transaction& tx, Statement const& statement)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // exec_params: the one form that libpqxx 6 and 7 share
    auto const run = [&tx](auto const*... all) {
        return tx.exec_params(std::string{Statement::statement_text}, all->text()...);
    };
#pragma GCC diagnostic pop
    return std::apply(run, statement.parameters());
}

}  // namespace skald::postgres
