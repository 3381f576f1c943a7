// Packs many small frames into few packets. The library writes each frame separately, and a message has three: without
// this the broker is woken for each message, which costs both sides more than the frame does.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace skald::rabbitmq {

/// While it lives, the kernel sends full packets only (tcp(7), TCP_CORK). Lifetime: the socket's, at most. A caller
/// that waits for an answer meanwhile calls flush() first.
class gathered_writes
{
public:
    explicit gathered_writes(int socket) : socket_{socket} { set(1); }
    ~gathered_writes() { set(0); }
    gathered_writes(gathered_writes const&) = delete;
    gathered_writes& operator=(gathered_writes const&) = delete;

    void flush()
    {
        set(0);
        set(1);
    }

private:
    // If it fails, everything is sent as it comes, as without it.
    void set(int on) const { ::setsockopt(socket_, IPPROTO_TCP, TCP_CORK, &on, sizeof on); }

    int socket_;
};

}  // namespace skald::rabbitmq
