// What travels in messages has a JSON form.
// expected: put NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE
#include <skald/skald.hpp>

#include <string>

struct order
{
    std::string id;
};
#ifndef MISTAKE
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, id)
#endif

inline constexpr skald::pivot<order> ship{"ship", "shipping"};
inline constexpr auto send = skald::define("send", ship);

struct shipping final : skald::pivot_step<order>
{
    skald::outcome execute(skald::step_context&, order&) const override { return skald::done(); }
};

void set_up(skald::service& service)
{
    service.host(send, ship, shipping{});
}
