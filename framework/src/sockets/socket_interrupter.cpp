#include "sockets/socket_interrupter.hpp"

#include "core/assert.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace skald::sockets {

void socket_interrupter::hold(int socket)
{
    SKALD_ASSERT(socket >= 0);
    std::lock_guard lock{mutex_};
    if (duplicate_ >= 0) ::close(duplicate_);
    duplicate_ = ::fcntl(socket, F_DUPFD_CLOEXEC, 0);
    // Nothing could end a wait for this socket.
    if (duplicate_ < 0) throw std::system_error{errno, std::generic_category(), "a second descriptor for a socket"};
    if (for_good_) shut_down();
}

void socket_interrupter::release()
{
    std::lock_guard lock{mutex_};
    if (duplicate_ >= 0) ::close(duplicate_);
    duplicate_ = -1;
}

void socket_interrupter::break_now()
{
    std::lock_guard lock{mutex_};
    shut_down();
}

void socket_interrupter::break_for_good()
{
    std::lock_guard lock{mutex_};
    for_good_ = true;
    shut_down();
}

void socket_interrupter::shut_down()
{
    if (duplicate_ >= 0) ::shutdown(duplicate_, SHUT_RDWR);
}

}  // namespace skald::sockets
