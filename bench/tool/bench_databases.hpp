// The three databases that the bench creates for itself, and its connections to them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <pqxx/pqxx>

namespace skald_bench {

inline constexpr std::array<char const*, 3> service_names{"orders", "payments", "shipping"};
inline constexpr std::size_t orders = 0, payments = 1, shipping = 2;

/// The plan of every saga here, as messages carry it.
inline constexpr std::string_view itinerary =
    "forward 1/3 create-order@bench-orders=compensatable charge-payment@bench-payments=pivot "
    "arrange-shipping@bench-shipping=retriable";

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // exec_params: the one form that libpqxx 6 and 7 share

template <class... Values>
pqxx::result ask(pqxx::connection& c, std::string_view statement, Values const&... values)
{
    return pqxx::nontransaction{c}.exec_params(std::string{statement}, values...);
}

#pragma GCC diagnostic pop

/// Threads: one at a time.
class bench_databases
{
public:
    /// Drops and creates the databases skald_bench_orders, _payments and _shipping on the server of `admin_url`. `tcp`:
    /// as the URL says; otherwise over the server's unix socket. Throws std::runtime_error that says what to do.
    bench_databases(std::string const& admin_url, bool tcp);
    ~bench_databases();
    bench_databases(bench_databases const&) = delete;
    bench_databases& operator=(bench_databases const&) = delete;

    /// For a service's DATABASE_URL.
    std::string url(std::size_t service, bool tcp) const;
    std::string url(std::size_t service) const { return url(service, tcp_); }

    /// The bench's own connection.
    pqxx::connection& at(std::size_t service);

    /// Fills skald.idempotency of each database with old records.
    void add_old_records(std::int64_t count, bool ordered);

    /// VACUUM (ANALYZE) and CHECKPOINT, so that no measurement pays for what came before it.
    void settle_down();

    std::string database_name(std::size_t service) const;

    /// All three, as an array for SQL.
    std::string database_names() const;

    /// Ends the bench's own connections, and waits until all others have ended: backends report their counts when they
    /// end, and before that up to a second late.
    void disconnect_all();

private:
    std::string admin_url_, socket_folder_, port_, user_;
    bool tcp_;
    std::array<std::unique_ptr<pqxx::connection>, 3> connections_;
};

/// The database URL with another database name: only what follows the last slash changes.
std::string with_database(std::string const& url, std::string const& name);

}  // namespace skald_bench
