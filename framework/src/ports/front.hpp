// The front port: what stands before the guard, so that a duplicate is answered without asking the database. Nothing
// here decides anything: a request that finds no answer goes through the guard, which does. (docs/redis.md)
#pragma once

#include "core/fingerprint.hpp"
#include "core/identity.hpp"
#include "core/instant.hpp"

#include <skald/http.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace skald::ports {

/// How long a response may be kept elsewhere than in the database, from when it was stored there: half of the shortest
/// retention, so that the purge meets no response that is still kept.
inline constexpr std::chrono::hours kept_max{12};

/// A stored response, as it is kept elsewhere.
struct kept_response
{
    core::saga_id id;
    core::fingerprint fingerprint;  // of the request that got this response
    http::response answer;
    std::string epoch{};  // the database's when it was claimed or read there: void in any other (skald.epoch())
    core::instant until{core::instant::max()};  // by the database's clock: void from then on
};

/// A request whose response is looked for.
struct question
{
    core::saga_id const& id;
    core::fingerprint const& fingerprint;
    std::string_view epoch;  // the database's current one
    core::instant now{};     // by its clock
};

struct found
{
    enum class kind {
        nothing,   // ask the guard
        result,    // `response` is the request's
        mismatch,  // there is a response, to another request with this key
        acquired,  // ask the guard, and release `token` in the end
        held,      // somebody else has acquired it, and it lasts for `left` unless they extend it
        away,      // no answer in time: ask the guard
    };

    kind what{};
    std::shared_ptr<kept_response const> response{};
    std::string token{};
    std::chrono::milliseconds left{};
};

/// What `kept` is to the one who asks: nothing, the result or a mismatch.
inline found compared(question const& q, std::shared_ptr<kept_response const> kept)
{
    if (kept->epoch != q.epoch || kept->until <= q.now) return {};
    bool const is_same = kept->fingerprint == q.fingerprint;
    return {is_same ? found::kind::result : found::kind::mismatch, std::move(kept)};
}

/// A place where responses are kept.
/// Threads: any.
class response_tier
{
public:
    virtual ~response_tier() = default;

    /// Finds nothing, a result or a mismatch; or is away.
    virtual found find(question const& q) = 0;

    /// Only what is stored, for whoever asks again; it need not be there at once. A newer one takes the place of one of
    /// another epoch.
    virtual void keep(kept_response what) = 0;

    response_tier() = default;
    response_tier(response_tier const&) = delete;
    response_tier& operator=(response_tier const&) = delete;
};

/// One that several processes share, and in which they also mark the requests that are under way. A mark lasts for a
/// while and is extended for as long as its process lives; it keeps nobody from asking the guard who has good reason.
class front : public response_tier
{
public:
    /// Connects, on a thread of its own. `database` distinguishes the service's database from all others.
    virtual void open(std::string const& database) = 0;

    /// Waits for what was handed to keep() last, for a moment, and disconnects.
    virtual void close() = 0;

    /// Marks the request as under way, or says that it is: acquired or held; or is away. With `looks`, in the same
    /// round trip: the result or a mismatch instead, if there is one.
    virtual found acquire(question const& q, bool looks) = 0;

    /// keep(), and releases the token. Returns whether it is kept; if not, it may be later.
    virtual bool keep_and_release(kept_response what, std::string const& token) = 0;

    virtual void release(core::saga_id const& id, std::string const& token) = 0;

    /// The mark lasts until it expires: what it marks may still be under way.
    virtual void leave(std::string const& token) = 0;

    /// Tells the other processes of the service that it is worth asking, for the next seconds.
    virtual void want() = 0;

    /// Whether another one, or this one, has said so.
    virtual bool is_wanted() const = 0;

    struct condition
    {
        bool is_connected{};
        bool is_avoided{};          // the breaker is not closed: most requests do not ask
        std::uint64_t dropped{};    // what was not kept, because there was no room or no connection
        std::uint64_t malformed{};  // entries that were not what is written there
    };
    virtual condition now() const = 0;
};

}  // namespace skald::ports
