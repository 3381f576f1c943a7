#include "rabbitmq/url.hpp"

#include "core/shell_word.hpp"

#include <cerrno>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace skald::rabbitmq {
namespace {

[[noreturn]] void refuse(std::string const& why)
{
    throw std::invalid_argument{"AMQP URL: " + why + "; expected amqp[s]://user:password@host:port/vhost"};
}

std::optional<unsigned> hex_digit(char c)
{
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
    return std::nullopt;
}

std::string percent_decoded(std::string_view text, std::string const& part)
{
    std::string decoded;
    for (std::size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == '%') {
            auto const high = i + 1 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
            auto const low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
            if (!high || !low) refuse("the " + part + " has a % without two hexadecimal digits");
            c = static_cast<char>(*high * 16 + *low);
            i += 2;
        }
        // rabbitmq-c takes these parts as C strings, which would end at the zero byte.
        if (c == '\0') refuse("the " + part + " has a zero byte");
        decoded += c;
    }
    return decoded;
}

/// Removes what precedes the first of `delimiters` from the front of `rest`, and leaves the delimiter there.
std::string_view take_until(std::string_view& rest, std::string_view delimiters)
{
    auto const end = std::min(rest.find_first_of(delimiters), rest.size());
    auto const part = rest.substr(0, end);
    rest.remove_prefix(end);
    return part;
}

int to_port(std::string_view text)
{
    int port = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc{} || end != text.data() + text.size() || port < 1 || port > 65535)
        refuse("the port is not a number from 1 to 65535");
    return port;
}

void read_user_info(std::string_view info, address& where)
{
    auto const colon = info.find(':');
    where.user = percent_decoded(info.substr(0, colon), "user");
    if (colon != std::string_view::npos) where.password = percent_decoded(info.substr(colon + 1), "password");
}

endpoint read_endpoint(std::string_view text, int default_port)
{
    endpoint node{{}, default_port};
    if (text.starts_with('[')) {
        auto const end = text.find(']');
        if (end == std::string_view::npos) refuse("the host has a [ without its ]");
        node.host = text.substr(1, end - 1);
        text.remove_prefix(end + 1);
        if (!text.empty() && text.front() != ':') refuse("the host goes on after its ]");
    }
    else {
        node.host = percent_decoded(take_until(text, ":"), "host");
    }
    if (node.host.empty()) refuse("there is no host");
    if (!text.empty()) node.port = to_port(text.substr(1));
    return node;
}

void read_endpoints(std::string_view authority, address& where)
{
    int const default_port = where.tls ? 5671 : 5672;
    for (;;) {
        where.endpoints.push_back(read_endpoint(take_until(authority, ","), default_port));
        if (authority.empty()) return;
        authority.remove_prefix(1);
    }
}

void read_query(std::string_view query, address& where)
{
    while (!query.empty()) {
        auto const pair = take_until(query, "&");
        if (!query.empty()) query.remove_prefix(1);
        auto const equals = pair.find('=');
        auto const name = pair.substr(0, equals);
        auto const value = equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1);
        if (name == "cacertfile") where.cacertfile = percent_decoded(value, "cacertfile");
        else if (name == "certfile") where.certfile = percent_decoded(value, "certfile");
        else if (name == "keyfile") where.keyfile = percent_decoded(value, "keyfile");
        else refuse("unknown parameter after the ?: only cacertfile, certfile and keyfile are known");
    }
}

void check(address const& where)
{
    if (where.vhost.size() > 255) refuse("the vhost is longer than 255 bytes");
    if (where.certfile.empty() != where.keyfile.empty()) refuse("certfile and keyfile go together");
    if (!where.tls && !(where.cacertfile + where.certfile).empty()) refuse("certificates need amqps://");
}

}  // namespace

address parse_url(std::string_view url)
{
    address where;
    if (url.starts_with("amqps://")) {
        where.tls = true;
        url.remove_prefix(8);
    }
    else if (url.starts_with("amqp://")) {
        url.remove_prefix(7);
    }
    else {
        refuse("it does not begin with amqp:// or amqps://");
    }
    auto authority = take_until(url, "/?#");
    // The last @, so that a password with an unencoded @ is not taken for a host and logged.
    if (auto const at = authority.rfind('@'); at != std::string_view::npos) {
        read_user_info(authority.substr(0, at), where);
        authority.remove_prefix(at + 1);
    }
    read_endpoints(authority, where);
    auto path = take_until(url, "?#");
    if (path.size() > 1) where.vhost = percent_decoded(path.substr(1), "vhost");
    if (url.starts_with('#')) refuse("it has a # (write %23)");
    if (path.size() > 1 && path.substr(1).find('/') != std::string_view::npos)
        refuse("the vhost has a / of its own (write %2F)");
    if (!url.empty()) read_query(url.substr(1), where);
    check(where);
    return where;
}

void check_files(address const& where)
{
    for (auto const& [name, file] : {std::pair{"cacertfile", &where.cacertfile}, std::pair{"certfile", &where.certfile},
                                     std::pair{"keyfile", &where.keyfile}})
        if (!file->empty() && ::access(file->c_str(), R_OK) != 0)
            throw std::invalid_argument{fmt::format("AMQP URL: {} ({}) can't be read: {}", name, *file,
                                                    std::generic_category().message(errno))};
}

std::string describe(endpoint const& node)
{
    std::string const host = node.host.find(':') == std::string::npos ? node.host : "[" + node.host + "]";
    return host + ":" + std::to_string(node.port);
}

std::string describe(address const& where)
{
    std::string text;
    for (auto const& node : where.endpoints) text += (text.empty() ? "" : ",") + describe(node);
    return text + (where.vhost.starts_with('/') ? "" : "/") + where.vhost;
}

std::string vhost_option(std::string const& vhost)
{
    return vhost == "/" ? "" : " --vhost " + core::shell_word(vhost);
}

}  // namespace skald::rabbitmq
