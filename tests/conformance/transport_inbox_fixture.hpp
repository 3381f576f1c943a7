// PostgreSQL alone as a transport, behind a proxy: the inboxes of a few services, all in one database.
#pragma once

#include "support/database.hpp"
#include "support/recording_logger.hpp"
#include "support/tcp_proxy.hpp"
#include "transport_conformance.hpp"

#include "inbox/inbox_transport.hpp"

#include <memory>
#include <string>
#include <vector>

namespace skald::test {

class inbox_fixture
{
public:
    inbox_fixture() : proxy_{server().hostname(), std::stoi(server().port())}
    {
        for (int i = 1; i <= services_max; ++i) peers_.push_back({"service-" + std::to_string(i), url_through_proxy()});
    }

    ports::transport& transport()
    {
        if (!transport_) transport_ = std::make_unique<inbox::inbox_transport>(options(), log_);
        return *transport_;
    }

    /// As the transport has them; for a test that needs others.
    inbox::options options() const
    {
        inbox::options made;
        made.database.url = url_through_proxy();
        made.database.application_name = "skald-test";
        made.peers = peers_;
        made.poll_every = std::chrono::hours{1};  // a message that nobody was told of would be missed
        made.reconnect = {std::chrono::milliseconds{10}, std::chrono::milliseconds{200}};
        return made;
    }

    std::string service()
    {
        REQUIRE(services_ < services_max);
        return "service-" + std::to_string(++services_);
    }

    void go_down() { proxy_.cut(); }
    void come_back() { proxy_.restore(); }

    database const& db() const { return db_; }
    recording_logger& log() { return log_; }

private:
    static constexpr int services_max = 3;

    pqxx::connection server() const { return pqxx::connection{db_.url()}; }

    // libpq takes the last of two values.
    std::string url_through_proxy() const
    {
        auto const more = db_.url().find('?') == std::string::npos ? "?" : "&";
        return db_.url() + more + "host=127.0.0.1&port=" + std::to_string(proxy_.port());
    }

    database db_;
    tcp_proxy proxy_;
    recording_logger log_;
    std::vector<postgres::service_database> peers_;
    int services_{};
    std::unique_ptr<inbox::inbox_transport> transport_;
};

}  // namespace skald::test
