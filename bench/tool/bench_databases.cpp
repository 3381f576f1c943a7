#include "bench_databases.hpp"

#include "bench_tool_sql.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

namespace skald_bench {

std::string with_database(std::string const& url, std::string const& name)
{
    auto const begin = url.find("://");
    auto const slash = begin == std::string::npos ? begin : url.find('/', begin + 3);
    if (slash == std::string::npos)
        throw std::runtime_error{"DATABASE_URL is not of the form postgresql://user@host:port/database"};
    auto const query = url.find('?', slash);
    return url.substr(0, slash + 1) + name + (query == std::string::npos ? "" : url.substr(query));
}

bench_databases::bench_databases(std::string const& admin_url, bool tcp) : admin_url_{admin_url}, tcp_{tcp}
{
    pqxx::connection admin{admin_url_};
    auto const server = ask(admin, sql::unix_socket);
    socket_folder_ = server[0][0].c_str();
    port_ = server[0][1].c_str();
    user_ = server[0][2].c_str();
    if (!tcp_ && ::access(fmt::format("{}/.s.PGSQL.{}", socket_folder_, port_).c_str(), R_OK | W_OK) != 0)
        throw std::runtime_error{
            fmt::format("PostgreSQL's unix socket in '{}' can't be used from here: run where the server runs, "
                        "or measure with --tcp",
                        socket_folder_)};
    for (std::size_t i = 0; i < service_names.size(); ++i) {
        ask(admin, fmt::format("DROP DATABASE IF EXISTS {} WITH (FORCE)", database_name(i)));
        ask(admin, fmt::format("CREATE DATABASE {}", database_name(i)));
    }
}

bench_databases::~bench_databases() = default;

std::string bench_databases::database_name(std::size_t service) const
{
    return std::string{"skald_bench_"} + service_names.at(service);
}

std::string bench_databases::url(std::size_t service, bool tcp) const
{
    if (tcp) return with_database(admin_url_, database_name(service));
    return fmt::format("postgresql:///{}?host={}&port={}&user={}", database_name(service), socket_folder_, port_,
                       user_);
}

pqxx::connection& bench_databases::at(std::size_t service)
{
    auto& connection = connections_.at(service);
    if (!connection) connection = std::make_unique<pqxx::connection>(url(service));
    return *connection;
}

std::string bench_databases::database_names() const
{
    return fmt::format("{{{},{},{}}}", database_name(0), database_name(1), database_name(2));
}

void bench_databases::disconnect_all()
{
    for (auto& one : connections_) one.reset();
    using namespace std::chrono_literals;
    auto const until = std::chrono::steady_clock::now() + 10s;
    while (ask(at(orders), sql::others_connected, database_names())[0][0].as<int>() > 0) {
        if (std::chrono::steady_clock::now() > until)
            throw std::runtime_error{
                "somebody else is connected to the databases skald_bench_*: the counts would not be the services' own"};
        std::this_thread::sleep_for(10ms);  // the server does not notify when a session has ended
    }
}

void bench_databases::add_old_records(std::int64_t count, bool ordered)
{
    if (count == 0) return;
    constexpr std::array steps{"create-order", "charge-payment", "arrange-shipping"};
    for (std::size_t i = 0; i < service_names.size(); ++i) {
        ask(at(i), sql::drop_key);
        ask(at(i), sql::old_records, count, ordered, steps.at(i));
        ask(at(i), ordered ? sql::add_key_for_ordered : sql::add_key_for_random);
    }
}

void bench_databases::settle_down()
{
    for (std::size_t i = 0; i < service_names.size(); ++i) ask(at(i), "VACUUM (ANALYZE)");
    ask(at(orders), "CHECKPOINT");
}

}  // namespace skald_bench
