// A service that is set up and not run: it defines a saga, hosts a step, and is told what is wrong with its settings.
#include <skald/skald.hpp>

#include <cstdio>
#include <string>

namespace {

struct order
{
    std::string id;
    int cents{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order, id, cents)

constexpr skald::compensatable<order> charge{"charge", "payments"};
constexpr skald::retriable<order> ship{"ship", "shipping"};
constexpr auto place_order = skald::define("place-order", charge, ship);

class charge_step final : public skald::compensatable_step<order>
{
    skald::outcome execute(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("UPDATE wallet SET cents = cents - $1", o.cents);
        return skald::done();
    }
    void compensate(skald::step_context& ctx, order& o) const override
    {
        ctx.sql("UPDATE wallet SET cents = cents + $1", o.cents);
    }
};

}  // namespace

int main()
try {
    skald::config settings;
    settings.service = "payments";
    skald::worker worker{settings};
    worker.host(place_order, charge, charge_step{});
    worker.post("/orders", [](skald::http::request_context& ctx) {
        ctx.start(place_order, charge_step{}, ctx.json<order>());
        return skald::http::json_response(202, {{"saga", ctx.key()}});
    });

    settings.service = "No Name";
    skald::worker refused{settings};
    std::puts("a service called 'No Name' was taken");
    return 1;
}
catch (skald::configuration_error const& error) {
    std::puts(error.what());
    return std::string{error.what()}.find("No Name") == std::string::npos;
}
