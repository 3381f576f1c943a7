#include "testing/server.hpp"

#include "postgres/conninfo.hpp"
#include "postgres/literal.hpp"
#include "skald_testing_queries.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

#include <libpq-fe.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>

namespace skald::testing::inner {
namespace {

std::string random_letters(int count)
{
    std::random_device device;
    std::uniform_int_distribution<int> letter{'a', 'z'};
    std::string text;
    for (int i = 0; i < count; ++i) text += static_cast<char>(letter(device));
    return text;
}

// libpq uses the last occurrence of each keyword.
std::string with(std::string const& url, std::string const& keyword, std::string const& value)
{
    auto const setting = keyword + '=' + value;
    bool const is_url = url.starts_with("postgresql://") || url.starts_with("postgres://");
    if (!is_url) return url + (url.empty() ? "" : " ") + setting;
    auto const authority = url.find("://") + 3;
    auto const at = url.substr(authority, url.find('/', authority) - authority).find('@');
    auto const question = url.find('?', at == std::string::npos ? authority : authority + at);
    return url + (question == std::string::npos ? '?' : '&') + setting;
}

// A machine that runs tests may be busy with others; a worker's default timeout is for production.
std::string patient(std::string const& url)
{
    return url.find("connect_timeout") == std::string::npos ? with(url, "connect_timeout", "60") : url;
}

std::string from_environment()
{
    char const* const url = std::getenv("DATABASE_URL");
    return url == nullptr ? "" : url;
}

}  // namespace

server::server(std::string const& url)
    : url_{patient(url.empty() ? from_environment() : url)}, name_{"skald_testing_" + random_letters(12)},
      connection_{PQconnectdb(postgres::with_defaults(url_, name_).c_str()), &PQfinish}
{
    if (PQstatus(connection_.get()) != CONNECTION_OK)
        throw configuration_error{std::string{"the test kit needs a PostgreSQL server, which DATABASE_URL names: "} +
                                  PQerrorMessage(connection_.get())};
    run(postgres::filled_in(testing_queries::register_run{.name = name_}));
    if (run(std::string{testing_queries::may_create_databases}) != rows{"t"})
        throw configuration_error{"the test kit makes databases of its own, and the role of its DATABASE_URL may not: "
                                  "ALTER ROLE ... CREATEDB, or name another role"};
    for (auto const& left : run(std::string{testing_queries::leftovers})) drop(left);
}

server::~server()
{
    for (auto const& name : std::vector<std::string>{databases_}) drop(name);
}

// Returns the first column.
server::rows server::run(std::string const& statement)
{
    std::unique_ptr<PGresult, void (*)(PGresult*)> const result{PQexec(connection_.get(), statement.c_str()), &PQclear};
    auto const status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        throw std::runtime_error{PQerrorMessage(connection_.get())};
    rows all;
    for (int row = 0; row < PQntuples(result.get()); ++row) all.emplace_back(PQgetvalue(result.get(), row, 0));
    return all;
}

std::string server::url_of(std::string const& database) const
{
    return with(url_, "dbname", database);
}

std::string server::create(std::string const& original)
{
    auto const name = name_ + '_' + std::to_string(++created_);
    run("CREATE DATABASE " + name + (original.empty() ? " TEMPLATE template0" : " TEMPLATE " + original));
    databases_.push_back(name);
    return name;
}

void server::drop(std::string const& database) noexcept
try {
    std::erase(databases_, database);
    try {
        run(fmt::format("DROP DATABASE IF EXISTS {} WITH (FORCE)", database));
    }
    catch (std::runtime_error const&) {
        // FORCE ends nobody where a session is another role's, and autovacuum's belongs to none. Without it, DROP
        // ends autovacuum itself and waits five seconds for the rest.
        run(postgres::filled_in(testing_queries::end_sessions{.database_name = database}));
        run(fmt::format("DROP DATABASE IF EXISTS {}", database));
    }
}
catch (std::exception const& error) {
    std::fprintf(stderr, "skald::testing: the database %s stays behind; the next run drops it: %s\n", database.c_str(),
                 error.what());
}

}  // namespace skald::testing::inner
