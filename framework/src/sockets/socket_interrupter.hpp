// Ends a blocking call of a client library from another thread.
//
// amqp_basic_publish has no timeout and hangs as long as a broker's alarm lasts; a COMMIT that waits for a standby is
// bounded by none of PostgreSQL's timeouts. shutdown(2) on the socket ends either; close(2) would free the descriptor
// for an unrelated file. The library itself may close the socket at any time, so the interrupter works on a duplicate
// of its own, which can't be reused meanwhile.
#pragma once

#include <mutex>

namespace skald::sockets {

/// Threads: every function may be called from any thread.
class socket_interrupter
{
public:
    socket_interrupter() = default;
    ~socket_interrupter() { release(); }
    socket_interrupter(socket_interrupter const&) = delete;
    socket_interrupter& operator=(socket_interrupter const&) = delete;

    /// From now on this is the socket to break. Throws std::system_error if there is no descriptor for that.
    void hold(int socket);
    void release();

    /// Shuts down the socket that is held now, if any.
    void break_now();

    /// Also every socket that is held later.
    void break_for_good();

private:
    void shut_down();

    std::mutex mutex_;
    int duplicate_{-1};
    bool for_good_{};
};

}  // namespace skald::sockets
