// The service `orders` of the order saga, on a server of its own: cpp-httplib instead of SKALD_HTTP_LISTEN.
//
//     DATABASE_URL=... AMQP_URL=... own_server_order_service 8080
#include "examples/order_saga/services.hpp"
#include "httplib_entry.hpp"

#include <skald/skald.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

int main(int argc, char** argv)
try {
    if (argc != 2) throw std::invalid_argument{"usage: own_server_order_service PORT"};
    skald::worker worker{order_saga::orders(), skald::config::from_environment(1, argv)};

    httplib::Server server;
    // A thread for each connection that is open, and some of them wait: ?wait=30.
    server.new_task_queue = [] { return new httplib::ThreadPool{64}; };
    own_server::mount(server, worker.entry());
    if (!server.bind_to_port("127.0.0.1", std::atoi(argv[1])))
        throw std::runtime_error{std::string{"can't listen on port "} + argv[1]};

    std::jthread serving;
    int const code = worker.run([&] { serving = std::jthread{[&] { server.listen_after_bind(); }}; });  // until SIGTERM
    server.stop();
    return code;
}
catch (std::exception const& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
}
