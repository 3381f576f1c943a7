// `stock` or `bank`, as the build of version 1, 2 or 3 has it: `rental_service --service NAME --version N`.
#include "support/rentals.hpp"

#include <stdexcept>

int main(int argc, char** argv)
{
    std::string name, version;
    auto const make = [&] {
        if (version == "1") return skald::test::rental_service<1>(name);
        if (version == "2") return skald::test::rental_service<2>(name);
        if (version == "3") return skald::test::rental_service<3>(name);
        throw std::invalid_argument{"there is no version `" + version + "`"};
    };
    return skald::run_service(make, argc, argv, {{"--service", &name, "which"}, {"--version", &version, "which"}});
}
