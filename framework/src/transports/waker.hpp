// Wakes a thread that waits in poll().
#pragma once

#include <cerrno>
#include <system_error>

#include <sys/eventfd.h>
#include <unistd.h>

namespace skald::transports {

/// Threads: any.
class waker
{
public:
    /// Throws: std::system_error if there are no more descriptors.
    waker() : descriptor_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}
    {
        if (descriptor_ < 0) throw std::system_error{errno, std::generic_category(), "eventfd"};
    }
    ~waker() { ::close(descriptor_); }
    waker(waker const&) = delete;
    waker& operator=(waker const&) = delete;

    /// Readable from now on, until clear().
    void wake() const noexcept
    {
        // Fails only if its counter is full.
        [[maybe_unused]] auto const ignored = ::eventfd_write(descriptor_, 1);
    }

    void clear() const noexcept
    {
        eventfd_t ignored{};
        ::eventfd_read(descriptor_, &ignored);
    }

    int descriptor() const { return descriptor_; }

private:
    int const descriptor_;
};

}  // namespace skald::transports
