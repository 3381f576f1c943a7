#include "clients.hpp"

#include "rig/http.hpp"

#include <random>

namespace skald::test {
namespace {

// So many of the last keys are asked for again.
constexpr std::size_t recent = 200;

}  // namespace

clients::clients(std::string path, std::vector<std::uint16_t> ports, std::int64_t requests, int threads)
    : path_{std::move(path)}, ports_{std::move(ports)}, requests_{requests}, running_{threads}
{
    for (int n = 0; n < threads; ++n) threads_.emplace_back([this, n] { run(n); });
}

clients::choice clients::choose(std::uint64_t dice, int number)
{
    std::lock_guard const lock{mutex_};
    if (keys_.empty() || dice % 100 < 25) {
        keys_.push_back("k" + std::to_string(keys_.size()) + '-' + std::to_string(number));
        return {keys_.back()};
    }
    auto const& key = keys_[keys_.size() - 1 - dice / 100 % std::min(recent, keys_.size())];
    return {key, dice % 100 >= 95 && responses_.contains(key)};
}

void clients::hear(choice const& what, int status, std::string const& body, bool is_replay)
{
    std::lock_guard const lock{mutex_};
    if (status == 0) ++heard_.lost;
    else if (status == 409) ++heard_.in_flight;
    else if (status >= 500) ++heard_.refused;
    else if (status == 422 && what.is_other) ++heard_.mismatch;
    else if (status != 201 || what.is_other) ++heard_.wrong;
    else {
        auto const [at, is_first] = responses_.emplace(what.key, body);
        if (at->second != body || !body.starts_with(what.key + ' ')) ++heard_.wrong;
        else if (is_first && !is_replay) ++heard_.made;
        else ++heard_.replayed;
    }
}

void clients::run(int number)
{
    std::vector<std::unique_ptr<rig::http_client>> to;
    for (auto const port : ports_) to.push_back(std::make_unique<rig::http_client>(port, std::chrono::seconds{2}));
    std::mt19937_64 random{static_cast<std::uint64_t>(number)};
    while (sent_++ < requests_) {
        auto const what = choose(random(), number);
        auto const got = to[random() % to.size()]->Post(path_, {{"Idempotency-Key", '"' + what.key + '"'}},
                                                        what.is_other ? "another" : "{}", "application/json");
        if (got && got->status >= 500) --sent_;  // it is at no cost, and would use them all up
        if (got) hear(what, got->status, got->body, got->has_header("Idempotency-Replayed"));
        else hear(what, 0, "", false);
    }
    --running_;
}

heard const& clients::judge()
{
    threads_.clear();
    return heard_;
}

}  // namespace skald::test
