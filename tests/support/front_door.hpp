// The HTTP entry of a service without HTTP: requests built by the test, a database of its own, and a handler that
// leaves an effect.
#pragma once

#include "support/database.hpp"
#include "support/doubtful_store.hpp"
#include "support/guarded.hpp"
#include "support/recording_logger.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace skald::test {

inline http::request post(std::string const& key, std::string const& body = "{}", std::string const& target = "/orders")
{
    http::request r;
    r.method = "POST";
    r.target = target;
    r.path = target.substr(0, target.find('?'));
    r.query = target.find('?') == std::string::npos ? "" : target.substr(target.find('?') + 1);
    r.headers = {{"Idempotency-Key", key}};
    r.body = body;
    return r;
}

// The entry of one service over a store that can lose its connection at COMMIT.
class front_door
{
public:
    /// Replays come from the database; with `kept_bytes` of room in the response cache, from memory where they can.
    explicit front_door(std::size_t kept_bytes = 0)
        : known_{.responses = entry_detail::response_cache{{kept_bytes, std::chrono::hours{1}}}}
    {
        db.run("CREATE TABLE effect (n int)");
    }

    http::response answer(http::request const& r, http::entry_handler const& handle, std::string const& scope = "")
    {
        entry_detail::request_guard guard{"orders", store, known_, backlog_, out_, log, steps};
        return respond_by(guard, known_, r, route(handle), scope);
    }

    entry_detail::route route(http::entry_handler const& handle) const { return {"POST", "/orders", key, handle}; }

    /// Answered by another process, with a connection of its own.
    http::response answer_apart(http::request const& r, http::entry_handler const& handle)
    {
        doubtful_store other{db.url()};
        entry_detail::known_requests apart;
        entry_detail::request_guard guard{"orders", other, apart, backlog_, out_, log};
        return respond_by(guard, apart, r, route(handle));
    }

    /// A handler that leaves an effect and returns this response.
    http::entry_handler giving(http::response given)
    {
        return [this, given](http::request_context& ctx) {
            ++runs;
            ctx.sql("INSERT INTO effect VALUES (1)");
            return given;
        };
    }

    std::string effects() const { return db.one("SELECT count(*) FROM effect"); }
    std::string records() const
    {
        return db.rows("SELECT (SELECT count(*) FROM skald.idempotency), (SELECT count(*) FROM skald.response), "
                       "(SELECT count(*) FROM skald.saga), (SELECT count(*) FROM skald.outbox)");
    }

    database const db;
    doubtful_store store{db.url()};
    int runs{};
    http::idempotency key{http::idempotency::required};
    recording_logger log;
    runtime::registry const* steps{};  // what the service hosts, if that is to be compared

private:
    entry_detail::known_requests known_;
    runtime::backlog backlog_;
    runtime::memory_source out_;
};

inline std::string value_of(http::response const& answer, std::string const& name)
{
    for (auto const& [header, value] : answer.headers)
        if (header == name) return value;
    return "";
}

// Everything that is sent back to the client, except for the mark of a replay.
inline std::string text_of(http::response answer)
{
    std::erase_if(answer.headers, [](auto const& h) { return h.first == "Idempotency-Replayed"; });
    std::string text = std::to_string(answer.status) + ' ' + answer.content_type + '\n';
    for (auto const& [name, value] : answer.headers) text += name + ": " + value + '\n';
    return text + '\n' + answer.body;
}

}  // namespace skald::test
