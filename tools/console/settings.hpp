// What `skald console` is told on its command line.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace skald::console {

/// A service and its database's address, read from a file: it may hold a password, which everyone can read in a command
/// line.
struct service_address
{
    std::string service;
    std::string url;
};

struct settings
{
    std::vector<service_address> services;   // with a role that only reads
    std::vector<service_address> operating;  // with a role that may repair; a service without one is only shown
    std::string listen{"127.0.0.1:8090"};
    std::string tokens;                  // the text of the token file; empty: there is none
    std::string user_header;             // a proxy's header that says who it is; empty: there is none
    std::vector<std::string> operators;  // of those whom the header names
    std::string local_user{"local"};     // who acts where neither says so
    int threads{16};
    std::chrono::milliseconds answer_within{4'000};  // of each statement
};

/// NAME=FILE. Throws configuration_error if it is neither, or the file can't be read or holds no address.
service_address read_address(std::string const& option, std::string const& name_and_file);

/// Throws configuration_error if one thing contradicts another, or a stranger could look in: not on loopback, and
/// nothing says who is there.
void check(settings const& given);

}  // namespace skald::console
