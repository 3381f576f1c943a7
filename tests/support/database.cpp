#include "support/database.hpp"

#include "postgres/migrate.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include <unistd.h>

namespace skald::test {
namespace {

std::string server_url()
{
    return required_variable("DATABASE_URL");
}

// The server's URL with another database at its end.
std::string with_database(std::string url, std::string const& name)
{
    auto const slash = url.rfind('/');
    auto const question = url.find('?', slash);
    return url.substr(0, slash + 1) + name + (question == std::string::npos ? "" : url.substr(question));
}

void on_server(std::string const& sql)
{
    pqxx::connection c{server_url()};
    pqxx::nontransaction{c}.exec(sql);
}

// Migrated once for each service and process; a clone of it takes a few milliseconds, migrating takes many.
std::string template_of(std::string const& service)
{
    auto const name = "skald_template_" + service + '_' + std::to_string(::getpid());
    pqxx::connection c{server_url()};
    pqxx::nontransaction tx{c};
    if (tx.exec("SELECT 1 FROM pg_database WHERE datname = " + tx.quote(name)).empty()) {
        tx.exec("CREATE DATABASE " + name);
        postgres::migrate(with_database(server_url(), name));
        postgres::own_database(with_database(server_url(), name), service);
    }
    return name;
}

}  // namespace

std::string required_variable(char const* name)
{
    char const* const value = std::getenv(name);
    if (value == nullptr || *value == '\0')
        throw std::runtime_error{std::string{name} + " is not set: run the tests with scripts/test.sh"};
    return value;
}

database::database(std::string const& service)
{
    static std::atomic<int> counter{};
    name_ = "skald_test_" + std::to_string(::getpid()) + '_' + std::to_string(++counter);
    on_server("CREATE DATABASE " + name_ + " TEMPLATE " + template_of(service));
    url_ = with_database(server_url(), name_);
}

database::~database()
try {
    on_server("DROP DATABASE " + name_ + " WITH (FORCE)");
}
catch (std::exception const&) {
    return;  // the server is private and goes away with the test run
}

pqxx::result database::run(std::string const& sql) const
{
    pqxx::connection c{url_};
    return pqxx::nontransaction{c}.exec(sql);
}

std::string database::one(std::string const& sql) const
{
    auto const result = run(sql);
    return result.empty() || result[0][0].is_null() ? "" : result[0][0].c_str();
}

std::string database::rows(std::string const& sql) const
{
    std::string text;
    for (auto const& row : run(sql)) {
        if (!text.empty()) text += '\n';
        for (pqxx::row::size_type i = 0; i < row.size(); ++i) text.append(i > 0 ? "|" : "").append(row[i].c_str());
    }
    return text;
}

}  // namespace skald::test
