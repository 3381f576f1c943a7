#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <exception>

#include "support/shop.hpp"

// Without the servers nothing can be tested: that is a failure, said once, and not a hundred.
int main(int argc, char** argv)
try {
    doctest::Context context{argc, argv};
    skald::test::required("DATABASE_URL");
    skald::test::required("AMQP_URL");
    int const result = context.run();
    if (!context.shouldExit() && skald::test::broker().vhost.starts_with("e2e-"))
        skald::test::rabbitmqctl("delete_vhost " + skald::test::broker().vhost);
    return result;
}
catch (std::exception const& error) {
    std::fprintf(stderr, "service_tests: %s\n", error.what());
    return 1;
}
