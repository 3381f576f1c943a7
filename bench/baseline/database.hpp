// libpq with a destructor: prepared statements, arrays in binary form, and several statements in one round trip.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <libpq-fe.h>

namespace bench_baseline {

struct database_error : std::runtime_error
{
    database_error(std::string const& what, std::string state) : std::runtime_error{what}, sqlstate{std::move(state)} {}
    std::string sqlstate;

    /// A deadlock or the like: the same transaction may well succeed when it is run again.
    bool try_again() const { return sqlstate.starts_with("40"); }
};

/// One value of a statement, in PostgreSQL's text or binary form.
struct parameter
{
    std::string bytes;
    bool binary{};
};

parameter text(std::string_view value);
parameter number(std::int64_t value);
parameter text_array(std::span<std::string const> values);
parameter bytea_array(std::span<std::string const> values);
parameter bigint_array(std::span<std::int64_t const> values);

using parameters = std::vector<parameter>;

class rows
{
public:
    explicit rows(PGresult* result) : result_{result, &PQclear} {}
    int size() const { return PQntuples(result_.get()); }
    std::string_view at(int row, int column) const;
    std::int64_t number_at(int row, int column) const;

private:
    std::shared_ptr<PGresult> result_;
};

/// Threads: one at a time. Throws database_error, and is unusable after it.
class database
{
public:
    /// Prepares those statements of baseline/*.sql whose tables this service has.
    database(std::string const& url, std::string_view service, bool shop);
    database(database const&) = delete;
    database& operator=(database const&) = delete;

    /// Takes a round trip of its own.
    rows run(char const* prepared, parameters const& values);
    void run_text(char const* text);

    /// Statements are collected; flush() sends them in one round trip, and returns the rows of each.
    void add(char const* prepared, parameters const& values);
    std::vector<rows> flush();

    /// Sends and does not wait; is_busy() says whether the answer is still outstanding.
    void send(char const* prepared, parameters const& values);
    bool is_busy();

private:
    struct closes
    {
        void operator()(PGconn* c) const { PQfinish(c); }
    };

    [[noreturn]] void fail(PGresult* result);
    void send_prepared(char const* prepared, parameters const& values);
    rows checked(PGresult* result);

    std::unique_ptr<PGconn, closes> connection_;
    std::size_t collected_{};
};

}  // namespace bench_baseline
