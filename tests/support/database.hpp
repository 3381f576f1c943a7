// A migrated and empty database for one test, on the server of DATABASE_URL.
#pragma once

#include <pqxx/pqxx>

#include <string>

namespace skald::test {

class database
{
public:
    explicit database(std::string const& service = "orders");
    ~database();
    database(database const&) = delete;
    database& operator=(database const&) = delete;

    std::string const& url() const { return url_; }

    /// Runs SQL in a session of its own.
    pqxx::result run(std::string const& sql) const;

    /// The first column of the first row.
    std::string one(std::string const& sql) const;

    /// All rows, columns joined by '|', rows by '\n'.
    std::string rows(std::string const& sql) const;

private:
    std::string service_;
    std::string name_;
    std::string url_;
};

}  // namespace skald::test
