#include "redis/url.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace skald::redis_detail {
namespace {

constexpr std::string_view plain = "redis://";
constexpr std::string_view with_tls = "rediss://";
constexpr std::string_view with_sentinels = "redis-sentinel://";
constexpr int server_port = 6379;
constexpr int sentinel_port = 26379;

[[noreturn]] void refuse(std::string const& why)
{
    throw std::invalid_argument{"SKALD_REDIS_URL: " + why +
                                "; expected redis[s]://[user:password@]host[:port][/number], or "
                                "redis-sentinel://[user:password@]host[:port],.../name[/number]"};
}

std::optional<int> whole(std::string_view text, int base, int most)
{
    int number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    if (error != std::errc{} || end != text.data() + text.size() || number < 0 || number > most) return std::nullopt;
    return number;
}

std::string percent_decoded(std::string_view text)
{
    std::string decoded;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            decoded += text[i];
            continue;
        }
        auto const byte = i + 2 < text.size() ? whole(text.substr(i + 1, 2), 16, 255) : std::nullopt;
        if (!byte) refuse("the user or the password has a % without two hexadecimal digits");
        decoded += static_cast<char>(*byte);
        i += 2;
    }
    return decoded;
}

std::string_view take_until(std::string_view& rest, char delimiter)
{
    auto const end = std::min(rest.find(delimiter), rest.size());
    auto const part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return part;
}

endpoint read_endpoint(std::string_view text, int port)
{
    endpoint node{{}, port};
    if (text.starts_with('[')) {
        text.remove_prefix(1);
        if (text.find(']') == std::string_view::npos) refuse("the host has a [ without its ]");
        node.host = take_until(text, ']');
        if (!text.empty() && text.front() != ':') refuse("the host goes on after its ]");
        if (text.empty()) return node;
        text.remove_prefix(1);
    }
    else {
        bool const has_port = text.find(':') != std::string_view::npos;
        node.host = take_until(text, ':');
        if (node.host.empty()) refuse("there is no host");
        if (!has_port) return node;
    }
    auto const number = whole(text, 10, 65535);
    if (!number || *number == 0) refuse("the port is not a number from 1 to 65535");
    node.port = *number;
    return node;
}

}  // namespace

address parse_url(std::string_view url)
{
    address where;
    where.has_tls = url.starts_with(with_tls);
    bool const is_plain = where.has_tls || url.starts_with(plain);
    if (!is_plain && !url.starts_with(with_sentinels))
        refuse("it does not begin with redis://, rediss:// (TLS) or redis-sentinel://");
    url.remove_prefix(where.has_tls ? with_tls.size() : is_plain ? plain.size() : with_sentinels.size());
    if (url.find_first_of("?#") != std::string_view::npos) refuse("nothing may follow a ? or a #");

    auto authority = take_until(url, '/');
    // The last @, so that a password with an unencoded @ is not taken for a host and logged.
    if (auto const at = authority.rfind('@'); at != std::string_view::npos) {
        auto info = authority.substr(0, at);
        where.user = percent_decoded(take_until(info, ':'));
        where.password = percent_decoded(info);
        if (where.password.empty()) refuse("there is a user without a password");
        authority.remove_prefix(at + 1);
    }
    do where.endpoints.push_back(read_endpoint(take_until(authority, ','), is_plain ? server_port : sentinel_port));
    while (!authority.empty());
    if (is_plain && where.endpoints.size() > 1) refuse("only sentinels may be several");
    if (!is_plain) where.master = take_until(url, '/');
    if (!is_plain && where.master.empty()) refuse("the name by which the sentinels know the server is missing");
    if (url.empty()) return where;
    auto const number = whole(url, 10, 1'000'000);
    if (!number) refuse("the database is not a number");
    where.database = *number;
    return where;
}

std::string describe(endpoint const& node)
{
    std::string const host = node.host.find(':') == std::string::npos ? node.host : '[' + node.host + ']';
    return host + ':' + std::to_string(node.port);
}

}  // namespace skald::redis_detail
