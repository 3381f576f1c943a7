// Serves the console over HTTP until it is told to stop.
#pragma once

#include "settings.hpp"

#include <functional>
#include <memory>
#include <string>

namespace skald::console {

/// The console, listening.
/// Threads: one.
class server
{
public:
    /// Throws configuration_error; also if it can't listen there.
    explicit server(settings const& given);
    ~server();  // lets requests end that are under way

    std::string address() const;  // "127.0.0.1:8090", with the actual port

private:
    class implementation;
    std::unique_ptr<implementation> implementation_;
};

/// Runs until SIGINT or SIGTERM. `started` is told the address at which it listens. Throws configuration_error.
void serve(settings const& given, std::function<void(std::string const& address)> const& started);

}  // namespace skald::console
