// What such a project's tests link. No server is at hand here: the kit says so, and that is the test.
#include <skald/testing.hpp>

#include <cstdio>
#include <string>

namespace {

struct order
{
    std::string id;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, id)

constexpr skald::retriable<order> ship{"ship", "shipping"};
constexpr auto send_it = skald::define("send-it", ship);

class ship_step final : public skald::retriable_step<order>
{
    skald::forward_outcome execute(skald::step_context&, order&) const override { return skald::done(); }
};

}  // namespace

int main()
try {
    skald::testing::harness shop{"host=127.0.0.1 port=1 user=nobody"};
    shop.host(send_it, ship, ship_step{});
    if (shop.prove_exactly_once(send_it, order{"o-1"})) std::puts("proved without a database");
    return 1;
}
catch (skald::configuration_error const& error) {
    std::puts(error.what());
    return std::string{error.what()}.find("needs a PostgreSQL server") == std::string::npos;
}
