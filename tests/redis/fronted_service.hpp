// Processes of one service that share a database and a Redis: each has its own front, its own connections and no memory
// of responses, so that what is answered comes from Redis or PostgreSQL.
#pragma once

#include "core/log.hpp"
#include "entry/entry.hpp"
#include "memory/memory_transport.hpp"
#include "redis/entry_bytes.hpp"
#include "support/database.hpp"
#include "support/redis_server.hpp"

#include <skald/redis.hpp>
#include <skald/testing/wait_until.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace skald::test {

/// Counts what the handlers of all processes have done: in the database, and how often they ran.
struct shared_effects
{
    shared_effects() { db.run("CREATE TABLE effect (key text)"); }

    std::string of(std::string const& key) const
    {
        return db.one("SELECT count(*) FROM effect WHERE key = '" + key + '\'');
    }

    /// So that the database knows nothing of what was answered, without a new epoch.
    void forget() const { db.run("TRUNCATE skald.idempotency, skald.response"); }

    database const db;
    std::atomic<int> runs{};
};

class fronted_service
{
public:
    using handler = std::function<http::response(http::request_context&)>;

    fronted_service(shared_effects& shared, std::string const& way, std::string const& redis_url, config changed = {},
                    std::string const& database_url = {})
        : shared_{shared}, settings_{completed(std::move(changed), way, redis_url)}
    {
        for (auto const key : {http::idempotency::required, http::idempotency::may_repeat})
            routes_.add({"POST", key == http::idempotency::required ? "/once" : "/again", key,
                         [this](http::request_context& ctx) { return run(ctx); }});
        routes_.set_scope([](http::request const& r) { return std::string{r.header("Scope")}; });
        auto front = way == "postgres" ? nullptr : skald::redis()(settings_, log_);
        entry_ = std::make_unique<skald::entry>(std::make_unique<skald::entry::implementation>(
            "orders", routes_, settings_, log_, nullptr, std::move(front)));
        entry_->parts().open({{.url = database_url.empty() ? shared.db.url() : database_url},
                              *deliveries_,
                              backlog_,
                              out_,
                              "a database"});
        if (entry_->parts().front() != nullptr) wait_for_redis();
    }

    ~fronted_service() { entry_->parts().close(std::chrono::steady_clock::now() + std::chrono::seconds{10}); }

    void wait_for_redis() const
    {
        auto const is_well = [this] { return front().now().is_connected && !front().now().is_avoided; };
        if (!testing::wait_until(is_well)) throw std::runtime_error{"the front has not connected"};
    }

    http::response ask(std::string const& key, std::string const& body = "{}", std::string const& scope = "shop",
                       std::string const& target = "/once") const
    {
        http::request r;
        r.method = "POST";
        r.target = target;
        r.headers = {{"Idempotency-Key", key}, {"Scope", scope}};
        r.body = body;
        return entry_->respond(r).answer;
    }

    /// A request of its own, so that this process knows the epoch.
    void see_epoch() { ask("epoch-" + std::to_string(++epochs_seen_)); }

    ports::front const& front() const { return *entry_->parts().front(); }

    /// How many requests got this answer from the front.
    std::uint64_t asked(ports::found::kind what) const
    {
        return entry_->parts().front_counts().asked.at(static_cast<std::size_t>(what)).value();
    }

    std::uint64_t not_asked() const { return entry_->parts().front_counts().not_asked.value(); }

    /// What the handler does besides leaving its effect.
    void then(handler what) { then_ = std::move(what); }

private:
    static config completed(config c, std::string const& way, std::string const& redis_url)
    {
        c.guard = way;
        c.redis_url = redis_url;
        c.redis_time = std::chrono::milliseconds{500};  // the machine may be busy: a test that is about it says so
        c.redis_epoch = std::chrono::minutes{1};
        c.http.kept_bytes_max = 0;
        return c;
    }

    http::response run(http::request_context& ctx)
    {
        ++shared_.runs;
        ctx.sql("INSERT INTO effect VALUES ($1)", ctx.key());
        if (then_) return then_(ctx);
        return {201,
                "text/plain",
                {{"Location", "/x"}},
                "made for " + ctx.key() + " by run " + std::to_string(shared_.runs)};
    }

    shared_effects& shared_;
    config const settings_;
    core::silent_logger log_;
    runtime::backlog backlog_;
    runtime::memory_source out_;
    memory::memory_transport transport_;
    std::unique_ptr<ports::subscription> deliveries_{transport_.subscribe({"orders", 1})};
    entry_detail::route_table routes_;
    handler then_;
    int epochs_seen_{};
    std::unique_ptr<skald::entry> entry_;
};

inline bool is_replay(http::response const& answer)
{
    for (auto const& [name, value] : answer.headers)
        if (name == "Idempotency-Replayed") return true;
    return false;
}

/// Everything that is sent back, except for the mark of a replay.
inline std::string whole(http::response const& answer)
{
    std::string text = std::to_string(answer.status) + ' ' + answer.content_type + '\n';
    for (auto const& [name, value] : answer.headers)
        if (name != "Idempotency-Replayed") text += name + ": " + value + '\n';
    return text + '\n' + answer.body;
}

}  // namespace skald::test
