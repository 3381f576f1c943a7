#include "postgres/conninfo.hpp"

#include <skald/errors.hpp>

#include <array>
#include <memory>
#include <utility>

#include <libpq-fe.h>

namespace skald::postgres {
namespace {

// A peer that is gone is noticed within about ten seconds: unsent data by tcp_user_timeout, silence by keepalives.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> defaults{{
    {"connect_timeout", "5"},
    {"tcp_user_timeout", "8000"},
    {"keepalives", "1"},
    {"keepalives_idle", "5"},
    {"keepalives_interval", "2"},
    {"keepalives_count", "3"},
}};

// libpq finds out only when it connects, and then it looks like a server that is away.
bool has_numeric_port(PQconninfoOption const* options)
{
    for (; options->keyword != nullptr; ++options)
        if (std::string_view{options->keyword} == "port" && options->val != nullptr)
            return std::string_view{options->val}.find_first_not_of("0123456789,") == std::string_view::npos;
    return true;
}

void check(std::string const& conninfo)
{
    char* problem = nullptr;
    std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> const parsed{
        PQconninfoParse(conninfo.c_str(), &problem), &PQconninfoFree};
    PQfreemem(problem);  // it quotes what it did not understand, which may be the password
    if (!parsed || !has_numeric_port(parsed.get()))
        throw configuration_error{"DATABASE_URL is neither a URL (postgresql://user@host:port/database) nor a list of "
                                  "keywords (host=... dbname=...) that libpq understands"};
}

}  // namespace

std::string with_defaults(std::string_view url, std::string_view application_name, std::string_view session_attrs)
{
    check(std::string{url});
    bool const is_url = url.starts_with("postgresql://") || url.starts_with("postgres://");
    std::string const separator = is_url ? "&" : " ";

    std::string ours = "application_name=" + std::string{application_name};
    for (auto const& [name, value] : defaults) ours.append(separator).append(name).append("=").append(value);
    // read-write: after a failover, the old primary is not talked to.
    ours.append(separator).append("target_session_attrs=").append(session_attrs);
    if (!is_url) return ours + ' ' + std::string{url};

    // Behind the user and password, which may hold anything but @ and /.
    auto const authority = url.find("://") + 3;
    auto const at = url.substr(authority, url.find('/', authority) - authority).find('@');
    auto const question = url.find('?', at == std::string_view::npos ? authority : authority + at);
    auto const theirs = question == std::string_view::npos ? std::string_view{} : url.substr(question + 1);
    return std::string{url.substr(0, question)} + '?' + ours + (theirs.empty() ? "" : "&") + std::string{theirs};
}

}  // namespace skald::postgres
