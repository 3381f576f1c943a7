// The steps that a worker hosts.
#include <doctest/doctest.h>

#include "runtime/registry.hpp"

#include <skald/errors.hpp>

#include <string>

using namespace skald;
using runtime::registry;

namespace {

class no_step final : public detail::hosted_step
{
public:
    std::unique_ptr<detail::step_run> read(std::string_view) const override { return nullptr; }
    bool does_batches() const override { return false; }
    skald::batch_outcome execute_batch(std::span<skald::detail::member_run const>) const override
    {
        return skald::one_by_one();
    }
};

runtime::registered_step hosted(int attempts_max = 8)
{
    return {std::make_shared<no_step>(), {.retry = {.attempts_max = attempts_max}}};
}

}  // namespace

TEST_CASE("a step is found under its definition and its name")
{
    registry steps;
    CHECK(steps.empty());
    steps.add("place-order", "charge", hosted(3));
    steps.add("return-order", "charge", hosted(5));

    CHECK_FALSE(steps.empty());
    REQUIRE(steps.find("place-order", "charge") != nullptr);
    CHECK(steps.find("place-order", "charge")->options.retry.attempts_max == 3);
    CHECK(steps.find("return-order", "charge")->options.retry.attempts_max == 5);
}

TEST_CASE("the room that steps ask for adds up, and a step that asks for none adds none")
{
    registry steps;
    CHECK(steps.prefetch() == 0);
    steps.add("place-order", "charge", hosted());
    CHECK(steps.prefetch() == 0);
    for (std::size_t room : {20, 3}) {
        auto one = hosted();
        one.options.prefetch = room;
        steps.add("return-order", "step-" + std::to_string(room), std::move(one));
    }
    CHECK(steps.prefetch() == 23);
}

TEST_CASE("what is not hosted is not found")
{
    registry steps;
    steps.add("place-order", "charge", hosted());
    CHECK(steps.find("place-order", "pack") == nullptr);
    CHECK(steps.find("return-order", "charge") == nullptr);
    CHECK(steps.find("charge", "place-order") == nullptr);
    CHECK(steps.find("", "") == nullptr);
    CHECK(registry{}.find("place-order", "charge") == nullptr);
}

TEST_CASE("hosting a step twice is an error that names it, and the first stays")
{
    registry steps;
    steps.add("place-order", "charge", hosted(3));
    CHECK_THROWS_WITH_AS(steps.add("place-order", "charge", hosted(5)), "step charge of place-order is hosted twice",
                         configuration_error);
    CHECK(steps.find("place-order", "charge")->options.retry.attempts_max == 3);
}
