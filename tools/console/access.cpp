#include "access.hpp"

#include "core/text.hpp"
#include "http/chars.hpp"
#include "http/listen_address.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <sstream>
#include <stdexcept>

namespace skald::console {
namespace {

constexpr std::string_view cookie_name = "skald_console";
constexpr std::string_view bearer_scheme = "Bearer ";
constexpr std::size_t token_bytes_min = 24;
constexpr std::chrono::hours signed_in_for{12};

core::signing_key random_key()
{
    std::array<unsigned char, 32> bytes{};
    if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
        throw std::runtime_error{"the system gives no random numbers"};
    return core::signing_key::parse(core::to_hex({reinterpret_cast<char const*>(bytes.data()), bytes.size()})).value();
}

bool is_same(std::string_view one, std::string_view other)
{
    return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

// Steady: what it says is only compared with itself.
std::int64_t seconds_now()
{
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

bool is_name(std::string_view text)
{
    return !text.empty() && text.size() <= 64 && core::visible_text(text) == text;
}

std::string value_of_cookie(std::string_view cookies)
{
    std::istringstream all{std::string{cookies}};
    for (std::string one; std::getline(all, one, ';');) {
        one.erase(0, one.find_first_not_of(' '));
        if (one.starts_with(std::string{cookie_name} + "=")) return one.substr(cookie_name.size() + 1);
    }
    return {};
}

std::string host_of(std::string_view host_and_port)
{
    if (host_and_port.starts_with('[')) return std::string{host_and_port.substr(0, host_and_port.find(']') + 1)};
    return std::string{host_and_port.substr(0, host_and_port.find(':'))};
}

}  // namespace

access::access(settings const& given)
    : user_header_{given.user_header}, operators_{given.operators}, local_user_{given.local_user},
      is_on_loopback_{given.tokens.empty() && given.user_header.empty()}, key_{random_key()}
{
    std::istringstream lines{given.tokens};
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        if (line.find_first_not_of(" \t\r") == std::string::npos || line.starts_with('#')) continue;
        std::istringstream words{line};
        std::string what, name, text, more;
        words >> what >> name >> text;
        if ((what != "viewer" && what != "operator") || !is_name(name) || text.empty() || words >> more)
            throw configuration_error{
                fmt::format("--token-file: line {} is not `viewer NAME TOKEN` or `operator NAME TOKEN`", number)};
        if (text.size() < token_bytes_min)
            throw configuration_error{fmt::format("--token-file: the token of {} has fewer than {} characters: "
                                                  "`openssl rand -hex 24` makes one that nobody guesses",
                                                  name, token_bytes_min)};
        if (auto const* const other = find(text))
            throw configuration_error{
                fmt::format("--token-file: line {} has the token of {}: each line needs its own", number, other->name)};
        tokens_.push_back({what == "operator" ? role::operator_ : role::viewer, name, core::fingerprint_of(text)});
    }
    if (!given.tokens.empty() && tokens_.empty()) throw configuration_error{"--token-file holds no token"};
}

access::token const* access::find(std::string const& text) const
{
    auto const mark = core::fingerprint_of(text);
    token const* found = nullptr;
    for (auto const& one : tokens_)
        if (is_same(one.mark, mark)) found = &one;
    return found;
}

person access::known(std::string const& name, console::role role) const
{
    return {name, role, key_.mac_of("form\n" + name), false};
}

std::optional<person> access::who(request const& asked) const
{
    if (!user_header_.empty()) {
        auto const name = asked.header(user_header_);
        if (!is_name(name)) return std::nullopt;
        bool const may_act = std::ranges::find(operators_, name) != operators_.end();
        return known(name, may_act ? role::operator_ : role::viewer);
    }
    if (tokens_.empty()) return known(local_user_, role::operator_);
    if (auto const bearer = asked.header("Authorization"); bearer.starts_with(bearer_scheme)) {
        auto const* found = find(bearer.substr(bearer_scheme.size()));
        return found == nullptr ? std::nullopt : std::optional{known(found->name, found->role)};
    }
    return who_by_cookie(asked.header("Cookie"));
}

// The cookie is `number.until.mac`: which token, until when, and that we said so.
std::optional<person> access::who_by_cookie(std::string const& cookies) const
try {
    auto const value = value_of_cookie(cookies);
    auto const dot = value.rfind('.');
    if (dot == std::string::npos || !is_same(value.substr(dot + 1), key_.mac_of("cookie\n" + value.substr(0, dot))))
        return std::nullopt;
    auto const& one = tokens_.at(std::stoul(value));
    auto const until = std::stoll(value.substr(value.find('.') + 1));
    if (until < seconds_now()) return std::nullopt;
    auto found = known(one.name, one.role);
    found.is_signed_in = true;
    return found;
}
catch (std::exception const&) {
    return std::nullopt;
}

bool access::is_ours(request const& asked, person const& by) const
{
    return is_from_here(asked) && is_same(asked.filled_in("form_key"), by.form_key);
}

// A program says neither. A proxy that changes Host says in X-Forwarded-Host what it was; no other site can have a
// browser send that.
bool access::is_from_here(request const& asked)
{
    auto const site = asked.header("Sec-Fetch-Site"), origin = asked.header("Origin");
    if (!site.empty() && site != "same-origin") return false;
    if (origin.empty()) return true;
    auto const scheme_end = origin.find("://");
    if (scheme_end == std::string::npos) return false;
    auto const host = std::string_view{origin}.substr(scheme_end + 3);
    if (host.empty()) return false;
    return http::equal_ignoring_case(host, asked.header("Host")) ||
           http::equal_ignoring_case(host, asked.header("X-Forwarded-Host"));
}

bool access::brings_token(request const& asked) const
{
    if (!has_tokens()) return false;
    bool const signs_in = asked.path == "/sign-in" && asked.form.contains("token");
    return signs_in || asked.header("Authorization").starts_with(bearer_scheme);
}

bool access::is_for_us(request const& asked) const
{
    if (!is_on_loopback_) return true;
    auto const host = host_of(asked.header("Host"));
    bool const is_number = host.find_first_not_of("0123456789.") == std::string::npos;
    return host == "localhost" || host == "[::1]" || (is_number && host.starts_with("127."));
}

std::optional<std::string> access::sign_in(request const& asked, std::string const& text) const
{
    auto const* found = find(text);
    if (found == nullptr) return std::nullopt;
    auto const until = seconds_now() + std::chrono::seconds{signed_in_for}.count();
    auto const value = fmt::format("{}.{}", found - tokens_.data(), until);
    // A browser says by which scheme it loaded the form, whatever the proxy says.
    bool const is_behind_tls =
        asked.header("X-Forwarded-Proto") == "https" || asked.header("Origin").starts_with("https://");
    return fmt::format("{}={}.{}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{}", cookie_name, value,
                       key_.mac_of("cookie\n" + value), std::chrono::seconds{signed_in_for}.count(),
                       is_behind_tls ? "; Secure" : "");
}

std::string access::name_of(std::string const& text) const
{
    auto const* found = find(text);
    return found == nullptr ? std::string{} : found->name;
}

std::string access::sign_out()
{
    return fmt::format("{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0", cookie_name);
}

}  // namespace skald::console
