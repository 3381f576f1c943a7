// The guard for requests, without a server: for a service whose HTTP server is its own (cpp-httplib, Crow, Drogon,
// Boost.Beast, gRPC with JSON, ...). Skald's own server, that of SKALD_HTTP_LISTEN, answers by the same.
//
//     skald::worker worker{orders(), settings};
//     server.Post(".*", [&](httplib::Request const& in, httplib::Response& out) {
//         auto made = worker.entry().respond_and_wait({.method = in.method,
//                                                      .target = in.target,
//                                                      .headers = {in.headers.begin(), in.headers.end()},
//                                                      .body = in.body});
//         ...
//     });
//
// The routes are the service's (service::route), with those that every service has: /sagas/{key},
// /sagas/{key}/signals/{step}, /problems/{type}, /livez and /readyz. examples/own_server is a whole program.
#pragma once

#include <skald/http.hpp>

#include <memory>

namespace skald {

/// What a request gets, by its value alone: no socket is involved.
///
/// Requests:  method, target, headers and body as the server received them; the rest is filled in here. The server is
///            responsible for what precedes that: where a request ends, how large it may be, how long it may take.
///            Its answer must be sent as it is, with all its headers in their order: a replay is the first response
///            byte for byte.
/// Databases: up to SKALD_HTTP_LANES requests at a time use a database connection each; further ones wait for one.
/// Lifetime:  the worker's.
/// Threads:   any.
/// Throws:    nothing but std::bad_alloc: every failure is a response.
class entry
{
public:
    /// For Skald.
    class implementation;

    /// Made by a worker.
    explicit entry(std::unique_ptr<implementation> made);
    entry(entry const&) = delete;
    entry& operator=(entry const&) = delete;
    ~entry();

    /// Answers the request: executes it, once for each Idempotency-Key. Blocks while it runs. Before worker::run() has
    /// prepared the database, and once it drains, the response is 503.
    ///
    /// A reply with a `max_wait` is the latest state of something that goes on: the first request with this key, or a
    /// saga. Its client would rather wait that long (Prefer: wait=N, ?wait=N) for a later one. Call it again with the
    /// same request until the reply has no `max_wait`, or the time is up; or send what there is.
    http::reply respond(http::request message);

    /// The same, and does the waiting, at most SKALD_HTTP_WAIT_SECONDS: blocks the calling thread for that long.
    http::response respond_and_wait(http::request message);

    /// For Skald.
    implementation& parts() { return *implementation_; }

private:
    std::unique_ptr<implementation> implementation_;
};

}  // namespace skald
