// Limits how many bytes of request bodies a server holds at once: bodies being received, waiting and being served. Each
// has its own limit, but very many slow ones together would use up all memory.
#pragma once

#include <atomic>
#include <cstddef>

namespace skald::http {

/// Threads: any.
class body_budget
{
public:
    /// What one connection holds, for as long as it lives. The budget must outlive it.
    class share
    {
    public:
        explicit share(body_budget& of) : of_{of} {}
        ~share() { release(); }
        share(share const&) = delete;
        share& operator=(share const&) = delete;

        /// Sets the size held to `bytes`. False if that exceeds the budget of all bodies; then it holds nothing.
        bool hold(std::size_t bytes)
        {
            auto const more = bytes - own_;  // wraps around if the size shrinks
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

    /// Whether a body of `bytes` would fit right now. Nothing is reserved: a client that only announces a large body
    /// takes no room from the others.
    bool has_room_for(std::size_t bytes) const { return bytes <= most_ && held_ <= most_ - bytes; }

    std::size_t held() const { return held_; }

private:
    std::size_t const most_;
    std::atomic<std::size_t> held_{0};
};

}  // namespace skald::http
