// The program `gateway` with a ledger in a folder of its own, and requests to it.
#pragma once

#include "rig/process.hpp"
#include "support/raw_http.hpp"

#include <skald/testing/wait_until.hpp>

#include <nlohmann/json.hpp>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::test {

/// Deleted with what is in it.
class fresh_folder
{
public:
    fresh_folder()
    {
        char name[] = "/tmp/skald-gateway-XXXXXX";
        if (::mkdtemp(name) == nullptr) throw std::runtime_error{"no temporary folder"};
        name_ = name;
    }
    ~fresh_folder()
    {
        std::error_code ignored;
        std::filesystem::remove_all(name_, ignored);
    }
    fresh_folder(fresh_folder const&) = delete;
    fresh_folder& operator=(fresh_folder const&) = delete;

    std::filesystem::path operator/(std::string const& file) const { return name_ / file; }

private:
    std::filesystem::path name_;
};

inline std::string charge_of(int cents, std::string const& reference = "r")
{
    return nlohmann::json{{"amount", cents}, {"currency", "EUR"}, {"reference", reference}}.dump();
}

inline std::string with_key(std::string const& key)
{
    return "Idempotency-Key: " + key + "\r\n";
}

inline std::string with_fault(std::string const& fault)
{
    return "Gateway-Fault: " + fault + "\r\n";
}

/// One request, as it goes over the wire. `headers`: lines, each with its end.
inline std::string wire(std::string const& method, std::string const& target, std::string const& body,
                        std::string const& headers)
{
    return method + ' ' + target + " HTTP/1.1\r\nHost: gateway\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

class gateway_process
{
public:
    explicit gateway_process(std::vector<std::string> more = {})
        : process_{{.program = SKALD_GATEWAY, .arguments = arguments(std::move(more))}}
    {
        start();
    }

    std::filesystem::path ledger() const { return folder_ / "ledger"; }
    std::filesystem::path address_file() const { return folder_ / "address"; }
    rig::process& process() { return process_; }
    std::uint16_t port() const { return port_; }

    void start()
    {
        process_.start();
        if (!testing::wait_until([&] { return process_.http_port() != 0 || !process_.is_running(); }) ||
            process_.http_port() == 0)
            throw std::runtime_error{"the gateway did not start: " + process_.log()};
        port_ = process_.http_port();
    }

    void kill_and_restart()
    {
        process_.kill();
        start();
    }

    raw_answer ask(std::string const& method, std::string const& target, std::string const& body = {},
                   std::string const& headers = {}) const
    {
        return raw_client{port_}.ask(wire(method, target, body, headers));
    }
    raw_answer charge(std::string const& body, std::string const& headers = {}) const
    {
        return ask("POST", "/charges", body, headers);
    }
    void plan(std::string const& faults) const
    {
        if (auto const got = ask("PUT", "/faults", faults); got.status != 204) throw std::runtime_error{got.body};
    }

    nlohmann::json look_up(std::string const& reference = "r") const
    {
        return nlohmann::json::parse(ask("GET", "/charges?reference=" + reference).body);
    }
    /// All that was charged.
    std::vector<nlohmann::json> charges() const
    {
        std::istringstream lines{ask("GET", "/charges").body};
        std::vector<nlohmann::json> all;
        for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
        return all;
    }

private:
    std::vector<std::string> arguments(std::vector<std::string> more) const
    {
        more.insert(more.end(), {"--ledger", ledger().string(), "--address-file", address_file().string()});
        return more;
    }

    fresh_folder folder_;
    rig::process process_;
    std::uint16_t port_{};
};

}  // namespace skald::test
