#include "support/database.hpp"

#include "postgres/migrate.hpp"
#include "support/required.hpp"

#include <map>
#include <mutex>

#include <unistd.h>

namespace skald::test {
namespace {

std::string server_url()
{
    return required("DATABASE_URL");
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
        postgres::migrate(with_database(server_url(), name), service);
    }
    return name;
}

// A database that a test is done with is emptied for the next one: that takes milliseconds, and creating one takes much
// longer. They are gone when the private server is.
class pool
{
public:
    std::string take(std::string const& service)
    {
        std::lock_guard const lock{mutex_};
        auto& free = free_[service];
        if (free.empty()) return create(service);
        auto const name = free.back();
        free.pop_back();
        empty(name);
        return name;
    }

    void give_back(std::string const& service, std::string name)
    {
        std::lock_guard const lock{mutex_};
        free_[service].push_back(std::move(name));
    }

private:
    std::string create(std::string const& service)
    {
        auto const name = "skald_test_" + std::to_string(::getpid()) + '_' + std::to_string(++created_);
        on_server("CREATE DATABASE " + name + " TEMPLATE " + template_of(service));
        pqxx::connection c{with_database(server_url(), name)};
        pqxx::nontransaction{c}.exec("UPDATE skald.service SET place = skald.place()");  // a copy, on purpose
        return name;
    }

    static void empty(std::string const& name)
    {
        pqxx::connection c{with_database(server_url(), name)};
        pqxx::nontransaction{c}.exec(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid();"
            "DELETE FROM skald.idempotency; DELETE FROM skald.response; DELETE FROM skald.saga; DELETE FROM "
            "skald.outbox;"
            "DELETE FROM skald.progress; DELETE FROM skald.control; DELETE FROM skald.parked; DELETE FROM skald.audit;"
            "DELETE FROM skald.started; DELETE FROM skald.signal; DELETE FROM skald.attribute; DELETE FROM "
            "skald.reply; DELETE FROM skald.hosted; "
            "DELETE FROM skald.handler; DELETE FROM skald.hosted_version; "
            "DELETE FROM skald.breaker; "
            "DELETE FROM skald.body; DELETE FROM skald.body_part;"
            "DELETE FROM skald.inbox; DELETE FROM skald.queue; DELETE FROM skald.binding; DELETE FROM skald.consumer; "
            "DELETE FROM skald.ended; DELETE FROM skald.unrouted; DELETE FROM skald.unrouted_destination;"
            "UPDATE skald.service SET forgot_before = NULL WHERE forgot_before IS NOT NULL;"
            "DELETE FROM skald.migration WHERE owner <> 'skald';"
            "DROP SCHEMA public CASCADE; CREATE SCHEMA public;");
    }

    std::mutex mutex_;
    std::map<std::string, std::vector<std::string>> free_;
    int created_{};
};

pool& databases()
{
    static pool all;
    return all;
}

}  // namespace

database::database(std::string const& service) : service_{service}, name_{databases().take(service)}
{
    url_ = with_database(server_url(), name_);
}

database::~database()
{
    databases().give_back(service_, name_);
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
