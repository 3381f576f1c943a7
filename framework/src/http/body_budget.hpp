// How much of all the requests' bodies a server holds: those that are on their way, that wait, and that are served.
// Each has its own limit, but very many slow ones together would take the memory of everything else.
#pragma once

#include <atomic>
#include <cstddef>

namespace skald::http {

/// Threads: any.
class body_budget
{
public:
    /// What one connection holds, for as long as it lives. The budget outlives it.
    class share
    {
    public:
        explicit share(body_budget& of) : of_{of} {}
        ~share() { release(); }
        share(share const&) = delete;
        share& operator=(share const&) = delete;

        /// From now on it is `bytes`. False where that is too much for all of them together; then it is nothing.
        bool hold(std::size_t bytes)
        {
            auto const more = bytes - own_;  // modulo, so that it may be less
            own_ = bytes;
            if ((of_.held_ += more) <= of_.most_ || bytes == 0) return true;
            release();
            return false;
        }
        void release() { hold(0); }

    private:
        body_budget& of_;
        std::size_t own_{0};
    };

    explicit body_budget(std::size_t most) : most_{most} {}

    /// Whether a body of `bytes` fits as it stands. Nothing is kept for it: a client that only says that it will send
    /// much takes nothing from the others.
    bool has_room_for(std::size_t bytes) const { return bytes <= most_ && held_ <= most_ - bytes; }

    std::size_t held() const { return held_; }

private:
    std::size_t const most_;
    std::atomic<std::size_t> held_{0};
};

}  // namespace skald::http
