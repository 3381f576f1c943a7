// Between a program and its PostgreSQL: lets it stand still, for that program only.
#pragma once

#include "support/tcp_proxy.hpp"

#include <pqxx/pqxx>

#include <string>

namespace skald::test {

class database_wire
{
public:
    /// To the database at `url`.
    explicit database_wire(std::string const& url) : database_wire{url, pqxx::connection{url}} {}
    ~database_wire() { freeze(false); }
    database_wire(database_wire const&) = delete;
    database_wire& operator=(database_wire const&) = delete;

    /// As SIGSTOP does: connections are made, and stay, and nothing is said.
    void freeze(bool is_frozen)
    {
        proxy_.hold_requests(is_frozen);
        proxy_.hold_answers(is_frozen);
    }

    std::string const& url() const { return url_; }

private:
    database_wire(std::string const& url, pqxx::connection direct)
        : proxy_{direct.hostname(), std::stoi(direct.port())}, url_{url +
                                                                    (url.find('?') == std::string::npos ? "?" : "&") +
                                                                    "host=127.0.0.1&hostaddr=127.0.0.1&port=" +
                                                                    std::to_string(proxy_.port())}
    {}

    tcp_proxy proxy_;
    std::string url_;
};

}  // namespace skald::test
