// Signed requests to one bucket, by libcurl.
#pragma once

#include "s3/address.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace skald::s3_detail {

struct credentials
{
    std::string key;
    std::string secret;
    std::string token{};  // of a session; empty: none
    std::string region{"us-east-1"};
};

struct client_options
{
    address where;
    credentials who;
    std::chrono::milliseconds connect_time{5'000};
    std::chrono::seconds slow_time{10};  // for so long less than slow_rate: then the server counts as away
    long slow_rate{1'024};               // bytes a second
    // A whole request takes no longer than to connect, this, and its bytes at that rate: a server that sends a little
    // now and then counts as away too.
    std::chrono::milliseconds spare_time{10'000};
    long whole_rate{256 * 1'024};  // bytes a second
};

struct request
{
    std::string method;                 // GET, PUT, DELETE
    std::string name{};                 // of the object, without the prefix; empty: the bucket
    std::string query{};                // sorted, and written as it is to be signed
    std::string_view body{};            // of a PUT; it must outlive the request
    std::string body_sha256{};          // in hex; empty: of no bytes
    std::string copy_of{};              // another object, which the server copies
    std::size_t answer_max{1'048'576};  // bytes of an answer; one with more is an error
};

struct response
{
    long status{};
    std::string body;
    std::chrono::sys_seconds now{};  // by the server's clock; 0: it did not say

    bool is_good() const { return status >= 200 && status < 300; }
    bool is_missing() const { return status == 404; }

    /// For people: the status, and what S3 says of it.
    std::string in_words() const;
};

/// Threads: any. Each request has a connection of its own, which is used again.
class client
{
public:
    explicit client(client_options options);
    ~client();
    client(client const&) = delete;
    client& operator=(client const&) = delete;

    address const& where() const { return options_.where; }

    /// Throws ports::fault{unavailable} if there is no whole answer, with the reason. What the answer says is the
    /// caller's to judge.
    response send(request const& what);

private:
    class handle;
    std::unique_ptr<handle> take();
    void give_back(std::unique_ptr<handle> used);

    client_options const options_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<handle>> free_;
};

}  // namespace skald::s3_detail
