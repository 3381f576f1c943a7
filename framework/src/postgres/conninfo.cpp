#include "postgres/conninfo.hpp"

#include <skald/errors.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <libpq-fe.h>
#include <unistd.h>

namespace skald::postgres {
namespace {

constexpr std::string_view database_url = "DATABASE_URL";

// A peer that is gone is noticed within about ten seconds: unsent data by tcp_user_timeout, silence by keepalives.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> defaults{{
    {"connect_timeout", "5"},
    {"tcp_user_timeout", "8000"},
    {"keepalives", "1"},
    {"keepalives_idle", "5"},
    {"keepalives_interval", "2"},
    {"keepalives_count", "3"},
}};

// What libpq takes for the name of a host or a database, and tells whoever reads its complaint: the rest of a password
// with an @ in it, or of a second URL.
std::string_view why_no_url(PQconninfoOption const* options)
{
    for (; options->keyword != nullptr; ++options) {
        std::string_view const name{options->keyword};
        std::string_view const value{options->val != nullptr ? options->val : ""};
        if ((name == "host" || name == "port") && value.find('@', 1) != std::string_view::npos)
            return "an @ in a password is written %40";
        if (name == "dbname" &&
            (value.find("://") != std::string_view::npos || value.find('\n') != std::string_view::npos))
            return "it is to be one URL; several hosts are HOST:PORT,HOST:PORT within it";
    }
    return {};
}

// libpq finds out only when it connects, and then it looks like a server that is unavailable.
bool is_whole(std::string_view text, int min, int max)
{
    int value{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() && value >= min && value <= max;
}

bool has_right_numbers(PQconninfoOption const* options)
{
    for (; options->keyword != nullptr; ++options) {
        std::string_view const name{options->keyword};
        std::string_view text{options->val != nullptr ? options->val : ""};
        if (text.empty()) continue;
        if (name == "connect_timeout" && !is_whole(text, 0, 1'000'000)) return false;
        if (name != "port") continue;
        while (!text.empty()) {
            auto const one = text.substr(0, text.find(','));
            if (!one.empty() && !is_whole(one, 1, 65'535)) return false;
            text.remove_prefix(std::min(one.size() + 1, text.size()));
        }
    }
    return true;
}

// Of a URL: where its parameters begin, `?` included; its end if it has none.
std::size_t find_parameters(std::string_view url)
{
    // After the user and password, which may hold anything but @ and /.
    auto const authority = url.find("://") + 3;
    auto const at = url.substr(authority, url.find('/', authority) - authority).find('@');
    return std::min(url.find('?', at == std::string_view::npos ? authority : authority + at), url.size());
}

bool is_url(std::string_view text)
{
    return text.starts_with("postgresql://") || text.starts_with("postgres://");
}

// Out of libpq's complaint: the parameter that it does not have. Empty if the complaint is another, or what it quotes
// does not look like a name: that may be a piece of a password.
std::string unknown_parameter(std::string_view problem)
{
    for (std::string_view const begin : {"invalid connection option \"", "invalid URI query parameter: \""}) {
        if (!problem.starts_with(begin)) continue;
        auto const name = problem.substr(begin.size(), problem.find('"', begin.size()) - begin.size());
        if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos) return std::string{name};
    }
    return {};
}

using settings_of_url = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;

settings_of_url parse(std::string const& conninfo, std::string_view setting = database_url)
{
    if (is_url(conninfo) && conninfo.find_last_not_of(" \t\r\n") + 1 < conninfo.size())
        throw configuration_error{std::string{setting} + ": the URL ends with a blank, which would count; take it out"};
    char* said = nullptr;
    settings_of_url parsed{PQconninfoParse(conninfo.c_str(), &said), &PQconninfoFree};
    // It quotes the text it could not parse, which may be the password.
    std::unique_ptr<char, decltype(&PQfreemem)> const problem{said, &PQfreemem};
    if (auto const unknown = unknown_parameter(problem ? problem.get() : ""); !unknown.empty())
        throw configuration_error{std::string{setting} + ": libpq has no parameter `" + unknown + "`; leave it out"};
    if (auto const why = parsed ? why_no_url(parsed.get()) : std::string_view{}; !why.empty())
        throw configuration_error{std::string{setting} + ": " + std::string{why}};
    if (!parsed || !has_right_numbers(parsed.get()))
        throw configuration_error{
            std::string{setting} +
            " is neither a URL (postgresql://user@host:port/database) nor a list of keywords "
            "(host=... dbname=...) that libpq understands; a port is 1 to 65535, connect_timeout a "
            "number of seconds"};
    return parsed;
}

// libpq checks values when it is told to connect, before it does so. Here it is told to connect to a place that does
// not exist: its complaint must be about that place, and not about a value.
void check_values(PQconninfoOption const* options, std::string const& setting)
{
    constexpr auto nowhere = "/skald-connects-nowhere";
    std::vector<char const*> names{"host"}, values{nowhere};
    for (; options->keyword != nullptr; ++options) {
        std::string_view const name{options->keyword};
        if (options->val == nullptr || name == "host" || name == "hostaddr" || name == "port") continue;
        names.push_back(options->keyword);
        values.push_back(options->val);
    }
    names.push_back(nullptr);
    values.push_back(nullptr);
    std::unique_ptr<PGconn, decltype(&PQfinish)> const asked{PQconnectStartParams(names.data(), values.data(), 0),
                                                             &PQfinish};
    if (!asked || PQstatus(asked.get()) != CONNECTION_BAD) return;
    std::string why = PQerrorMessage(asked.get());
    if (why.find(nowhere) != std::string::npos) return;
    while (!why.empty() && why.back() == '\n') why.pop_back();
    throw configuration_error{setting + ": libpq says: " + why};
}

void check_files(PQconninfoOption const* options, std::string const& setting)
{
    for (; options->keyword != nullptr; ++options) {
        std::string_view const name{options->keyword}, value{options->val != nullptr ? options->val : ""};
        if (name != "sslrootcert" && name != "sslcert" && name != "sslkey" && name != "sslcrl") continue;
        bool const is_no_file = value.empty() || value == "system" || value.find(':') != std::string_view::npos;
        if (is_no_file || ::access(options->val, R_OK) == 0) continue;
        throw configuration_error{setting + ": " + std::string{name} + " (" + std::string{value} +
                                  ") can't be read: " + std::generic_category().message(errno)};
    }
}

}  // namespace

void check_settings(std::string_view url, std::string const& setting)
{
    auto const settings = parse(std::string{url}, setting);
    check_values(settings.get(), setting);
    check_files(settings.get(), setting);
}

void refuse_read_only(std::string_view url)
{
    auto const settings = parse(std::string{url});
    for (auto const* option = settings.get(); option->keyword != nullptr; ++option) {
        std::string_view const value{option->val != nullptr ? option->val : ""};
        if (std::string_view{option->keyword} != "target_session_attrs") continue;
        if (value == "read-only" || value == "standby" || value == "prefer-standby")
            throw configuration_error{"DATABASE_URL: target_session_attrs=" + std::string{value} +
                                      " asks for a server that takes no writes, and a service writes: leave it out"};
    }
}

std::string why_not_connected(std::string_view url, std::string const& error)
{
    constexpr std::string_view missing{"\" does not exist"};
    auto const end = error.find(missing);
    auto const begin = end == std::string::npos ? end : error.rfind("database \"", end);
    if (!url.empty() && begin == std::string::npos) return error;
    if (!url.empty())
        return error.substr(0, error.find_last_not_of('\n') + 1) + "; create it with: CREATE DATABASE " +
               error.substr(begin + 9, end - begin - 8);
    return "DATABASE_URL is not set, so libpq's PG* variables and defaults name the database; " + error;
}

std::string_view remedy_of_no_connection(std::string_view error)
{
    struct known
    {
        std::string_view words, remedy;
    };
    constexpr std::string_view user = "the server runs: check the user in DATABASE_URL, and its password";
    constexpr std::array all{
        known{"too many connections for role",
              "raise the role's limit (ALTER ROLE ... CONNECTION LIMIT), or end some of its sessions"},
        known{"too many connections for database",
              "raise the database's limit (ALTER DATABASE ... CONNECTION LIMIT), or end some of its sessions"},
        known{"too many clients", "raise max_connections, or end some sessions"},
        known{"connection slots are reserved", "raise max_connections, or end some sessions"},
        known{"authentication failed", user},
        known{"no password supplied", user},
        known{"is not permitted to log in", user},
        known{"FATAL:  role \"", user},
        known{"pg_hba.conf", "the server runs: its pg_hba.conf has to let this user in from this machine"},
        known{"permission denied for database", "as its owner: GRANT CONNECT ON DATABASE ... TO this user"},
    };
    auto const* const one =
        std::ranges::find_if(all, [&](known const& it) { return error.find(it.words) != std::string_view::npos; });
    return one != all.end() ? one->remedy : "check that it runs, and that DATABASE_URL names it";
}

std::string with_defaults(std::string_view url, std::string_view application_name, std::string_view session_attrs)
{
    parse(std::string{url});
    std::string const separator = is_url(url) ? "&" : " ";

    std::string ours = "application_name=" + std::string{application_name};
    for (auto const& [name, value] : defaults) ours.append(separator).append(name).append("=").append(value);
    // read-write: after a failover, the old primary is not used.
    ours.append(separator).append("target_session_attrs=").append(session_attrs);
    if (!is_url(url)) return ours + ' ' + std::string{url};

    auto const question = find_parameters(url);
    auto const theirs = question == url.size() ? std::string_view{} : url.substr(question + 1);
    return std::string{url.substr(0, question)} + '?' + ours + (theirs.empty() ? "" : "&") + std::string{theirs};
}

}  // namespace skald::postgres
