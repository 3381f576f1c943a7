// An operator of the RabbitMQ of a test. Needs AMQP_URL and an operator's rabbitmqctl for that broker: SKALD_TEST_STACK
// names a directory of scripts/stack.sh, or SKALD_RABBITMQCTL the command itself.
#pragma once

#include "transport_rabbitmq_fixture.hpp"

#include <cstdlib>

namespace skald::test {

/// The command that runs rabbitmqctl. Throws if there is none: a test that did nothing would count as passed.
inline std::string control_command()
{
    if (char const* const command = std::getenv("SKALD_RABBITMQCTL")) return command;
#ifdef SKALD_STACK_SCRIPT
    if (char const* const stack = std::getenv("SKALD_TEST_STACK"))
        return std::string{SKALD_STACK_SCRIPT} + " ctl '" + stack + "'";
#endif
    throw std::runtime_error{"neither SKALD_TEST_STACK nor SKALD_RABBITMQCTL is set: these tests need rabbitmqctl"};
}

inline bool control(std::string const& arguments)
{
    auto const command = control_command() + " " + arguments + " >/dev/null";
    bool const succeeded = std::system(command.c_str()) == 0;
    CHECK_MESSAGE(succeeded, command);
    return succeeded;
}

/// A vhost of its own, so that closing all of its connections concerns nobody else.
class private_vhost
{
public:
    private_vhost()
    {
        REQUIRE(control("add_vhost " + name_));
        REQUIRE(control("set_permissions -p " + name_ + " " + test_broker().user + " '.*' '.*' '.*'"));
    }
    ~private_vhost() { control("delete_vhost " + name_); }
    skald::rabbitmq::address where() const
    {
        auto broker = test_broker();
        broker.vhost = name_;
        return broker;
    }
    std::string const& name() const { return name_; }

private:
    std::string name_{random_name("skald-test-")};
};

}  // namespace skald::test
