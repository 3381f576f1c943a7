#include <skald/skald.hpp>

#include <cstdint>
#include <string>

struct order
{
    std::string id;
    std::int64_t cents{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, id, cents)

namespace {

constexpr skald::pivot<order> charge{"charge", "payments"};
constexpr auto place_order = skald::define("place-order", charge);

class charge_step final : public skald::pivot_step<order>
{
    skald::outcome execute(skald::step_context&, order&) const override { return skald::done(); }
};

skald::service payments()
{
    skald::service s{"payments"};
    s.host(place_order, charge, charge_step{});
    return s;
}

}  // namespace

int main(int argc, char** argv)
{
    return skald::run_service(payments, argc, argv);
}
