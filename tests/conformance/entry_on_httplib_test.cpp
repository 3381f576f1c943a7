// The entry behind a server that is not Skald's, as the example mounts it.
#include "entry_conformance.hpp"

#include "examples/own_server/httplib_entry.hpp"

#include <thread>

namespace {

/// cpp-httplib.
class httplib_server
{
public:
    httplib_server(skald::entry& of, skald::config const&, skald::core::logger&)
    {
        server_.new_task_queue = [] { return new httplib::ThreadPool{32}; };
        own_server::mount(server_, of);
        port_ = server_.bind_to_any_port("127.0.0.1");
        serving_ = std::jthread{[this] { server_.listen_after_bind(); }};
        while (!server_.is_running()) std::this_thread::yield();
    }
    ~httplib_server() { server_.stop(); }

    std::uint16_t port() const { return static_cast<std::uint16_t>(port_); }

private:
    httplib::Server server_;
    int port_{};
    std::jthread serving_;
};

}  // namespace

TYPE_TO_STRING(httplib_server);

namespace skald::test {
SKALD_ENTRY_CLAIMS(httplib_server);
}
