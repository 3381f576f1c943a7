// Sends by writing into the inboxes of the services that the messages are for.
#pragma once

#include "inbox/peer.hpp"
#include "ports/transport.hpp"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace skald::inbox {

class inbox_publisher final : public ports::publisher
{
public:
    using peer_connections = std::map<std::string, std::shared_ptr<peer>, std::less<>>;

    explicit inbox_publisher(peer_connections peers) : peers_{std::move(peers)} {}

    /// Whether any of the peers can be reached, or is another database than before, which its messages are to say: what
    /// is for the others is put off. Waits for each peer's first attempt to connect, and for no later one.
    bool available() override;

    /// The answers are there when it returns: each peer's COMMIT is its confirm.
    void send(std::span<ports::outgoing const> messages, std::chrono::milliseconds deadline) override;

    std::vector<ports::receipt> collect(std::chrono::milliseconds wait) override;
    void interrupt() noexcept override;
    std::string last_error() const override;

private:
    using clock = std::chrono::steady_clock;
    using group = std::vector<ports::outgoing const*>;

    struct outcome
    {
        ports::publish_status status{};
        std::string reason;
    };

    std::map<std::string_view, group> sorted(std::span<ports::outgoing const> messages);
    void send_to(std::string_view service, group const& messages, clock::time_point until);
    void send_to_all(group const& messages, clock::time_point until);
    std::vector<outcome> deliver(std::string_view service, group const& messages, clock::time_point until);
    std::vector<outcome> deliver_part(peer& to, std::string_view service, std::span<ports::outgoing const* const> part,
                                      std::chrono::milliseconds deadline) const;
    void answer(ports::outgoing const& one, outcome what);
    outcome put_off(std::string_view service, peer const& to) const;

    peer_connections peers_;
    std::vector<ports::receipt> receipts_;
    std::mutex mutex_;
    std::condition_variable interrupted_;
    bool is_interrupted_{};
};

}  // namespace skald::inbox
