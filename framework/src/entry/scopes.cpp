// Which scope a request belongs to: the scope functions that come with Skald.
#include "entry/scopes.hpp"
#include "core/fingerprint.hpp"
#include "http/chars.hpp"

#include <skald/errors.hpp>
#include <skald/http_handler.hpp>

#include <openssl/crypto.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace skald::http {
namespace {

constexpr std::string_view invalid_token = "Bearer error=\"invalid_token\"";

std::string only_header(request const& r, std::string const& name)
{
    auto const is_it = [&](auto const& header) { return equal_ignoring_case(header.first, name); };
    if (std::ranges::count_if(r.headers, is_it) > 1) throw data_error{"the header " + name + " is given twice"};
    return std::string{r.header(name)};
}

// RFC 6750, 2.1: b64token.
bool is_token_text(std::string_view text)
{
    while (text.ends_with('=')) text.remove_suffix(1);
    return !text.empty() && std::ranges::all_of(text, [](char c) {
        return is_alpha(c) || is_digit(c) || std::string_view{"-._~+/"}.find(c) != std::string_view::npos;
    });
}

std::string bearer_token(request const& r)
{
    auto const value = only_header(r, "Authorization");
    auto const space = value.find(' ');
    if (!equal_ignoring_case(std::string_view{value}.substr(0, space), "Bearer"))
        throw unauthorized{"the request needs the header Authorization: Bearer <token>"};
    std::string token{trimmed(std::string_view{value}.substr(std::min(space, value.size())))};
    if (!is_token_text(token)) throw unauthorized{"the bearer token is malformed", std::string{invalid_token}};
    return token;
}

/// Holds only digests and compares every one of them, so that the timing reveals nothing about the table.
class token_table
{
public:
    explicit token_table(std::map<std::string, std::string> const& scope_of_token)
    {
        for (auto const& [token, scope] : scope_of_token) {
            if (!is_token_text(token))
                throw configuration_error{"a bearer token is letters, digits and -._~+/, then ="};
            rows_.emplace_back(core::fingerprint_of(token), scope);
        }
    }

    std::optional<std::string> find(std::string const& token) const
    {
        auto const digest = core::fingerprint_of(token);
        std::pair<core::fingerprint, std::string> const* found{};
        for (auto const& row : rows_)
            if (CRYPTO_memcmp(row.first.data(), digest.data(), digest.size()) == 0) found = &row;
        return found == nullptr ? std::nullopt : std::optional{found->second};
    }

private:
    std::vector<std::pair<core::fingerprint, std::string>> rows_;
};

}  // namespace

scope_function scope_from_header(std::string name, scope_header presence)
{
    return entry_detail::scope_from_request{[name = std::move(name), presence](request const& r) {
        auto scope = only_header(r, name);
        if (scope.empty() && presence == scope_header::required)
            throw data_error{"the header " + name + ", which says whose request it is, is missing or empty"};
        return scope;
    }};
}

scope_function scope_from_bearer(token_function scope_of)
{
    return [scope_of = std::move(scope_of)](request const& r) {
        if (auto scope = scope_of(bearer_token(r))) return *std::move(scope);
        throw unauthorized{"nobody has this bearer token", std::string{invalid_token}};
    };
}

scope_function scope_from_bearer(std::map<std::string, std::string> const& scope_of_token)
{
    token_function find = [table = token_table{scope_of_token}](std::string const& token) { return table.find(token); };
    return entry_detail::scope_from_request{scope_from_bearer(std::move(find))};
}

bool is_same_secret(std::string_view a, std::string_view b)
{
    auto const left = core::fingerprint_of(a);
    auto const right = core::fingerprint_of(b);
    return CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace skald::http
