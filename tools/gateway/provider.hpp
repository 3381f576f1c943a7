// What the gateway does when nothing is wrong with it: charges and refunds, once for each Idempotency-Key, as payment
// providers do it. It refuses nothing that a careless client does twice: a test is to see that.
#pragma once

#include "ledger.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gateway {

struct request
{
    std::string method;
    std::string path;   // without the query
    std::string query;  // without '?'
    std::string key;    // the Idempotency-Key
    std::string body;
};

struct response
{
    int status{200};
    std::string body{};
    bool is_replay{};
    std::string content_type{"application/json"};
};

struct provider_settings
{
    bool knows_keys{true};        // otherwise it ignores Idempotency-Key: every POST acts
    bool answers_look_ups{true};  // otherwise `GET /charges?reference=` is 404
};

/// {"error": what}
response problem(int status, std::string_view what);

/// How an act goes.
struct circumstances
{
    std::function<void()> before{};  // called before it acts, while the request is in progress; may throw
    bool declines{};
};

/// Threads: any.
class provider
{
public:
    provider(ledger& book, provider_settings settings);

    response answer(request const& asked, circumstances const& how);

private:
    class in_progress;

    response act(request const& asked, entry wanted, circumstances const& how);
    entry read_refund(request const& asked, std::string const& charge);
    response look_up(std::string const& reference);
    response list();
    std::string listed(entry const& charge) const;
    void index(std::size_t number);

    std::mutex mutex_;
    ledger& book_;
    provider_settings const settings_;
    std::unordered_map<std::string, std::size_t> by_key_;
    std::unordered_map<std::string, std::size_t> by_id_;
    std::unordered_map<std::string, std::vector<std::size_t>> charges_of_;  // by reference
    std::unordered_map<std::string, std::int64_t> refunded_;                // by charge
    std::set<std::string> keys_in_progress_;
    std::map<std::string, std::size_t> requests_in_progress_;  // by reference
};

}  // namespace gateway
