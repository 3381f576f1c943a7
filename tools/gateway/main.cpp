// `gateway`: a stand-in for a payment provider, for tests and demonstrations of what charges through one.
#include "server.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace {

struct options
{
    std::string listen{"127.0.0.1:0"};
    std::string ledger;
    std::string address_file;
    std::string keys{"known"};
    std::string look_up{"on"};
};

void add_options(CLI::App& app, options& chosen)
{
    app.add_option("--listen", chosen.listen, "HOST:PORT; port 0 is a free one")->capture_default_str();
    app.add_option("--ledger", chosen.ledger, "The file with what it did; made if it is not there")->required();
    app.add_option("--address-file", chosen.address_file, "A file that gets its HOST:PORT once it listens");
    app.add_option("--keys", chosen.keys, "Whether Idempotency-Key means anything to it")
        ->check(CLI::IsMember({"known", "ignored"}))
        ->capture_default_str();
    app.add_option("--lookup", chosen.look_up, "Whether GET /charges?reference=R is answered")
        ->check(CLI::IsMember({"on", "off"}))
        ->capture_default_str();
    app.footer("POST /charges, POST /charges/ID/refund, GET /charges?reference=R, GET /charges, PUT /faults;\n"
               "its faults are in tools/gateway/faults.hpp. It ends on SIGTERM.");
}

// Whoever reads the file while it is made gets nothing, or the whole address.
void write_address(std::string const& file, std::string const& address)
{
    auto const unfinished = file + ".new";
    std::ofstream out{unfinished};
    out << address << '\n';
    out.close();
    if (!out) throw std::runtime_error{unfinished + " can't be written"};
    std::filesystem::rename(unfinished, file);
}

int serve(options const& chosen)
{
    // Every thread inherits that these are blocked: only wait_for_end() gets them.
    sigset_t ends;
    ::sigemptyset(&ends);
    ::sigaddset(&ends, SIGTERM);
    ::sigaddset(&ends, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);

    gateway::ledger book{chosen.ledger};
    gateway::provider provider{book, {chosen.keys == "known", chosen.look_up == "on"}};
    gateway::server server{chosen.listen, provider};
    fmt::print("gateway: listening http={}\n", server.address());
    std::fflush(stdout);
    if (!chosen.address_file.empty()) write_address(chosen.address_file, server.address());
    std::thread{[&] { server.run(); }}.detach();

    // What was answered is on disk, so there is nothing to end in order.
    int signal{};
    ::sigwait(&ends, &signal);
    std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv)
{
    CLI::App app{
        "A stand-in for a payment provider: an HTTP server with a ledger of its own, that misbehaves on request"};
    options chosen;
    add_options(app, chosen);
    try {
        app.parse(argc, argv);
    }
    catch (CLI::ParseError const& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    try {
        return serve(chosen);
    }
    catch (std::exception const& error) {
        fmt::print(stderr, "gateway: {}\n", error.what());
        return 1;
    }
}
