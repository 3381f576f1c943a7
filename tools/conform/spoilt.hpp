// Messages that nobody can work with: each must be parked, with the reason for it, and harm nothing.
#pragma once

#include "conform/plan.hpp"
#include "conform/wire_form.hpp"

#include <string>
#include <vector>

namespace skald::conform {

struct spoilt_message
{
    std::string what;  // in words
    std::string reason{"malformed"};
    core::message message;
    wire_form form{};
    bool is_given_up{};  // by the broker, after its delivery limit: it comes from the queue skald.SERVICE.parked
};

/// Their ids begin with `run`.
std::vector<spoilt_message> make_spoilt(std::string const& run, std::string const& service);

}  // namespace skald::conform
