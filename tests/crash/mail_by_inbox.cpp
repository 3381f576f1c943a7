#include "mail.hpp"

#include "run.hpp"

#include <fstream>

#include <nlohmann/json.hpp>

#include <unistd.h>

namespace skald::crash {
namespace {

// What send() writes is not captured.
constexpr char const* read_along = R"(
    CREATE SCHEMA crash;
    CREATE TABLE crash.captured (queue text, message_id text, type text, headers json, body bytea);
    CREATE FUNCTION crash.capture() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF current_setting('crash.by_hand', true) IS DISTINCT FROM 'on' THEN
            INSERT INTO crash.captured VALUES (NEW.queue, NEW.message_id, NEW.type, NEW.headers, NEW.body);
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER capture AFTER INSERT ON skald.inbox FOR EACH ROW EXECUTE FUNCTION crash.capture();)";

std::string headers_of(test::raw_message const& message)
{
    auto pairs = nlohmann::json::array();
    for (auto const& entry : message.headers)
        pairs.push_back({std::string{test::view(entry.key)}, message.header(test::view(entry.key))});
    return pairs.dump();
}

// A literal that may hold quotes, as bodies do.
std::string quoted(std::string const& text)
{
    std::string made{"'"};
    for (char const c : text) made += c == '\'' ? "''" : std::string(1, c);
    return made + '\'';
}

class inbox_mail final : public mail
{
public:
    explicit inbox_mail(shop_databases const& databases) : databases_{databases}
    {
        char name[] = "/tmp/skald-crash-peers-XXXXXX";
        ::close(::mkstemp(name));
        peers_ = name;
        std::ofstream file{peers_};
        for (std::size_t i = 0; i < services.size(); ++i) file << services[i] << '=' << databases_[i]->url() << '\n';
    }
    ~inbox_mail() override { ::unlink(peers_.c_str()); }

    test::environment variables() const override
    {
        return {{"SKALD_TRANSPORT", "postgres"}, {"SKALD_PEERS_FILE", peers_}};
    }

    void begin() override
    {
        for (auto const& one : databases_) one->ask(read_along);
    }

    std::vector<test::raw_message> take_captured() override
    {
        std::vector<test::raw_message> all;
        for (auto const& database : databases_)
            for (auto const& row : database->ask("DELETE FROM crash.captured RETURNING queue, message_id, type, "
                                                 "headers::text, convert_from(body, 'UTF8')")) {
                auto& one = all.emplace_back();
                one.destination = row[0];
                one.set_id(row[1]);
                one.set_type(row[2]);
                for (auto const& pair : nlohmann::json::parse(row[3]))
                    one.set(pair[0].get<std::string>(), pair[1].get<std::string>());
                one.body = row[4];
            }
        return all;
    }

    void send(test::raw_message const& message) override
    {
        of(message.destination)
            .ask("SET crash.by_hand = 'on'; INSERT INTO skald.inbox (queue, message_id, type, content_type, headers, "
                 "body) VALUES (" +
                 quoted(message.destination) + ", " + quoted(message.id()) + ", " + quoted(message.type()) +
                 ", 'application/json', " + quoted(headers_of(message)) + ", convert_to(" + quoted(message.body) +
                 ", 'UTF8')); NOTIFY skald_inbox");
    }

    void cut_off_payments() override { of("payments").ask("DELETE FROM skald.queue WHERE name = 'payments'"); }
    void restore_payments() override
    {
        of("payments").ask("INSERT INTO skald.queue (name) VALUES ('payments') ON CONFLICT DO NOTHING");
    }

    unsigned waiting_in(std::string_view service) override
    {
        return static_cast<unsigned>(of(service).count("skald.inbox WHERE consumer IS NULL"));
    }
    bool is_empty() override
    {
        return std::ranges::all_of(databases_, [](auto const& one) { return one->count("skald.inbox") == 0; });
    }
    bool is_asked_quickly() const override { return true; }

private:
    test::fresh_database& of(std::string_view service)
    {
        auto const found = std::ranges::find(services, service);
        return *databases_.at(static_cast<std::size_t>(found - services.begin()));
    }

    shop_databases const& databases_;
    std::string peers_;
};

}  // namespace

std::unique_ptr<mail> mail_by_inbox(shop_databases const& databases)
{
    return std::make_unique<inbox_mail>(databases);
}

}  // namespace skald::crash
