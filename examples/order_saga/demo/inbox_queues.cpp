#include "queues.hpp"

#include <array>
#include <fstream>

#include <fmt/format.h>
#include <pqxx/pqxx>

namespace order_demo {
namespace {

using namespace std::chrono_literals;

constexpr auto between_copies = 20ms;

// A trigger remembers whatever comes into the inbox; send_due then sends it again. What send_due writes is no original.
constexpr char const* remember_everything = R"(
    CREATE SCHEMA demo;
    CREATE TABLE demo.hurry (now boolean);
    CREATE TABLE demo.copy (
        due_at timestamptz NOT NULL, queue text, message_id text, type text, content_type text, headers json, body bytea);
    CREATE FUNCTION demo.remember() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        lot double precision := random() * 3;
    BEGIN
        IF current_setting('demo.is_copying', true) = 'on' THEN RETURN NULL; END IF;
        INSERT INTO demo.copy
        VALUES (CASE WHEN lot < 1 OR EXISTS (SELECT FROM demo.hurry) THEN clock_timestamp()
                     WHEN lot < 2 THEN clock_timestamp() + random() * interval '2 s' ELSE 'infinity' END,
                NEW.queue, NEW.message_id, NEW.type, NEW.content_type, NEW.headers, NEW.body);
        RETURN NULL;
    END $$;
    CREATE TRIGGER remember AFTER INSERT ON skald.inbox FOR EACH ROW EXECUTE FUNCTION demo.remember();)";

constexpr char const* send_due = R"(
    WITH due AS (DELETE FROM demo.copy WHERE due_at <= clock_timestamp() RETURNING *),
    sent AS (INSERT INTO skald.inbox (queue, message_id, type, content_type, headers, body)
             SELECT queue, message_id, type, content_type, headers, body FROM due RETURNING 1)
    SELECT count(*), pg_notify('skald_inbox', '') FROM sent)";

class queues_in_databases final : public queues
{
public:
    explicit queues_in_databases(options const& chosen)
        : peers_{(chosen.logs / "peers").string()}, connections_{pqxx::connection{chosen.servers.orders_database},
                                                                 pqxx::connection{chosen.servers.payments_database},
                                                                 pqxx::connection{chosen.servers.shipping_database}}
    {
        std::ofstream file{peers_};
        file << "orders=" << chosen.servers.orders_database << "\npayments=" << chosen.servers.payments_database
             << "\nshipping=" << chosen.servers.shipping_database << '\n';
    }

    std::optional<state> look_at(std::size_t service) override
    {
        pqxx::nontransaction tx{connections_[service]};
        auto const seen = tx.exec("SELECT (SELECT count(*) FROM skald.inbox), (SELECT count(*) FROM skald.consumer),"
                                  " EXISTS (SELECT FROM skald.queue)")[0];
        if (!seen[2].as<bool>()) return std::nullopt;
        return state{seen[0].as<std::int64_t>(), seen[1].as<std::int64_t>()};
    }

    void copy_everything(std::uint64_t) override
    {
        for (auto& c : connections_) {
            pqxx::nontransaction tx{c};
            tx.exec(remember_everything);
            tx.exec("SET demo.is_copying = 'on'");
        }
        is_copying_ = true;
    }

    void check() override
    {
        if (!is_copying_ || clock::now() < next_) return;
        next_ = clock::now() + between_copies;
        for (auto& c : connections_) copied_.duplicates += count_of(c, send_due);
    }

    void hurry() override
    {
        for (auto& c : connections_) {
            pqxx::nontransaction tx{c};
            tx.exec("INSERT INTO demo.hurry VALUES (true); UPDATE demo.copy SET due_at = '-infinity'");
        }
    }

    skald::tools::duplicated copied() override
    {
        copied_.left = 0;
        if (is_copying_)
            for (auto& c : connections_) copied_.left += count_of(c, "SELECT count(*) FROM demo.copy");
        copied_.seen = copied_.duplicates + copied_.left;
        return copied_;
    }

    std::map<std::string, std::string> variables() const override
    {
        return {{"SKALD_TRANSPORT", "postgres"}, {"SKALD_PEERS_FILE", peers_}};
    }

private:
    using clock = std::chrono::steady_clock;

    static std::uint64_t count_of(pqxx::connection& c, std::string const& query)
    {
        pqxx::nontransaction tx{c};
        return tx.exec(query)[0][0].as<std::uint64_t>();
    }

    std::string peers_;
    std::array<pqxx::connection, service_count> connections_;
    bool is_copying_{};
    clock::time_point next_{};
    skald::tools::duplicated copied_;
};

}  // namespace

std::unique_ptr<queues> inbox_queues(options const& chosen)
{
    return std::make_unique<queues_in_databases>(chosen);
}

}  // namespace order_demo
