// Clients that send keys again and again to two processes, and judge what they hear by what anybody has heard before.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace skald::test {

struct heard
{
    std::int64_t made{};       // 201, for the first time
    std::int64_t replayed{};   // 201, once more
    std::int64_t mismatch{};   // 422, to another request under a key that has its response
    std::int64_t in_flight{};  // 409
    std::int64_t refused{};    // 5xx
    std::int64_t lost{};       // no response: its process was killed or stopped
    std::int64_t wrong{};      // anything else, and any response that is not the key's

    std::int64_t all() const { return made + replayed + mismatch + in_flight + refused + lost + wrong; }
};

class clients
{
public:
    /// `path` on both ports, until `requests` were sent and not refused. Begins at once.
    clients(std::string path, std::vector<std::uint16_t> ports, std::int64_t requests, int threads);

    bool are_done() const { return running_ == 0; }

    /// Waits for their end.
    heard const& judge();

    /// The response that each key has got.
    std::map<std::string, std::string> const& responses() const { return responses_; }

private:
    struct choice
    {
        std::string key;
        bool is_other{};  // another request under a key that has its response
    };

    void run(int number);
    choice choose(std::uint64_t dice, int number);
    void hear(choice const& what, int status, std::string const& body, bool is_replay);

    std::string const path_;
    std::vector<std::uint16_t> const ports_;
    std::int64_t const requests_;
    std::atomic<std::int64_t> sent_{};
    std::atomic<int> running_;
    std::mutex mutex_;
    std::vector<std::string> keys_;
    std::map<std::string, std::string> responses_;
    heard heard_;
    std::vector<std::jthread> threads_;
};

}  // namespace skald::test
