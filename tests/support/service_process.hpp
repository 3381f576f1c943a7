// A program under test as a process of its own: its environment is only what the test passes, its log is kept.
#pragma once

#include "rig/process.hpp"

#include <skald/testing/wait_until.hpp>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace skald::test {

using rig::ending;
using rig::environment;
using rig::wait_max;  // for what another process does: much longer than it takes on a busy machine
using testing::wait_until;

class service_process : public rig::process
{
public:
    service_process(std::string program, std::vector<std::string> arguments, environment variables)
        : process{{.program = std::move(program), .arguments = std::move(arguments), .variables = std::move(variables)}}
    {}
};

}  // namespace skald::test
