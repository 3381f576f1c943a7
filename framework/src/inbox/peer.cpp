#include "inbox/peer.hpp"

#include "core/failpoint.hpp"
#include "postgres/header_json.hpp"
#include "postgres/literal.hpp"
#include "skald_inbox_queries.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

#include <pqxx/except>

#include <system_error>

#include <poll.h>

namespace skald::inbox {

using postgres::execute;

namespace {

std::string one_line(std::string text)
{
    while (!text.empty() && text.back() == '\n') text.pop_back();
    for (auto& c : text)
        if (c == '\n') c = ' ';
    return text;
}

postgres::parameter written(std::span<core::message const* const> messages, std::string core::message::*member)
{
    std::vector<std::string> all;
    for (auto const* const one : messages) all.push_back(one->*member);
    return all;
}

inbox_queries::deliver delivery_of(std::span<core::message const* const> messages)
{
    std::vector<std::string> headers;
    std::vector<postgres::bytes> bodies;
    for (auto const* const one : messages) {
        headers.push_back(postgres::write_fields(one->headers));
        bodies.push_back({one->body});
    }
    return {.destinations = written(messages, &core::message::destination),
            .message_ids = written(messages, &core::message::id),
            .types = written(messages, &core::message::type),
            .content_types = written(messages, &core::message::content_type),
            .headers = headers,
            .bodies = bodies};
}

// The server names what it refused, and not for what: "permission denied for table inbox", in its own language.
std::string right_of(std::string_view refused)
{
    std::string const what{refused.substr(refused.rfind(' ') + 1)};
    if (what == "skald") return "the right USAGE on the schema skald";
    if (what == "inbox") return "the right INSERT on skald.inbox";
    if (what == "service" || what == "queue" || what == "binding") return "the right SELECT on skald." + what;
    return "a right";
}

}  // namespace

std::string lacking_right(pqxx::insufficient_privilege const& error)
{
    std::string_view refused{error.what()};
    refused = refused.substr(0, refused.find('\n'));  // then come the function and its statement
    if (refused.starts_with("ERROR:  ")) refused.remove_prefix(8);
    return fmt::format("this role lacks {} there ({}): let the owner of that database run the three GRANTs of "
                       "docs/transports.md, \"Rights\"",
                       right_of(refused), refused);
}

bool peer::available()
{
    if (connection_ && !connection_->is_open()) lose("the connection was closed");
    if (connection_ && has_word_of_its_end()) {
        try {
            connection_->ping();
        }
        catch (std::exception const& lost) {
            lose(lost.what());
        }
    }
    begin_to_connect();
    if (coming_.valid()) take_what_comes();
    return is_connected();
}

// While nothing was asked, a server says nothing but that it ends.
bool peer::has_word_of_its_end() const
{
    pollfd socket{connection_->raw().sock(), POLLIN, 0};
    return ::poll(&socket, 1, 0) > 0;
}

// On a thread of its own: a host that says nothing holds up what is for others for as long as the first attempt takes.
void peer::begin_to_connect()
try {
    if (connection_ || coming_.valid() || !schedule_.due(clock::now())) return;
    coming_ = std::async(std::launch::async, [this] { return connect(); });
}
catch (std::system_error const& error) {  // no thread for now
    lose(error.what());
}

void peer::take_what_comes()
try {
    if (has_failed_ && coming_.wait_for(std::chrono::seconds{0}) != std::future_status::ready) return;
    connection_ = coming_.get();
    schedule_.connected(clock::now());
    last_error_.clear();
    has_failed_ = false;
}
catch (pqxx::insufficient_privilege const& error) {
    lose(lacking_right(error));
}
catch (std::exception const& error) {
    lose(error.what());
}

std::unique_ptr<postgres::connection> peer::connect()
{
    auto options = options_;
    options.database = std::make_shared<postgres::database_identity>();  // its place may change: it is adopted then
    auto made = std::make_unique<postgres::connection>(options);
    auto const seen =
        made->run("PREPARE deliver AS " + std::string{inbox_queries::deliver::statement_text} + ";PREPARE flush AS " +
                  std::string{inbox_queries::flush} + ";" + std::string{inbox_queries::sender_session})[0];
    if (seen["is_copy"].as<bool>())
        throw pqxx::broken_connection{
            fmt::format("it is a copy of its service's database, or was restored from a backup, and nothing is sent to "
                        "it before `skald migrate --service {} --adopt` was run there: see docs/repair.md, \"A "
                        "database from a backup\"",
                        seen["service"].c_str())};
    if (!known_.is(seen["id"].as<std::string>("")))
        throw pqxx::broken_connection{"it is another database than the one that this process has sent to: correct its "
                                      "line in SKALD_PEERS_FILE; or, if the service has a new one, restart this "
                                      "process"};
    standby_wait_.end_left_behind(*made);
    return made;
}

void peer::lose(std::string const& why)
{
    connection_.reset();
    schedule_.failed(clock::now());
    last_error_ = one_line(why);
    has_failed_ = true;
}

std::set<std::string, std::less<>> peer::deliver(std::span<core::message const* const> messages,
                                                 std::chrono::milliseconds deadline)
try {
    connection_->answer_within(deadline);
    SKALD_FAILPOINT_SOCKET(publisher, connection_->socket());
    auto const missing = connection_->run(execute(delivery_of(messages)));
    standby_wait_.run(*connection_, execute("flush"));
    // "Committed", but a wait for standbys was cut short: a failover may lose it.
    if (!connection_->warning().empty()) throw pqxx::broken_connection{connection_->warning()};
    std::set<std::string, std::less<>> names;
    for (auto const& row : missing) names.insert(row[0].c_str());
    return names;
}
catch (pqxx::broken_connection const& error) {
    lose(error.what());
    throw pqxx::broken_connection{last_error_};
}
catch (pqxx::sql_error const&) {
    if (!connection_->is_open()) {
        lose("the server ended the session");
        throw pqxx::broken_connection{last_error_};
    }
    throw;
}

}  // namespace skald::inbox
