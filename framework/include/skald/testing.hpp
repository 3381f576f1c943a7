// The test kit: shows in your own tests that your steps take effect exactly once. It is a separate library,
// `skald::testing`, which no production program links.
//
//     TEST_CASE("placing an order charges once, whatever is delivered twice or dies half-way")
//     {
//         skald::testing::harness shop;  // on the PostgreSQL of DATABASE_URL, in databases of its own
//         shop.add(orders).add(payments).add(shipping);  // the services that your workers run
//         shop.given("payments", "INSERT INTO wallet VALUES ('ann', 1000)");
//         CHECK(shop.prove_exactly_once(place_order, order{"o-1", "ann", 100}));
//     }
//
// docs/testing.md goes from one step alone to the whole matrix.
#pragma once

#include <skald/testing/check.hpp>
#include <skald/testing/crash_point.hpp>
#include <skald/testing/harness.hpp>
#include <skald/testing/proof.hpp>
#include <skald/testing/step_alone.hpp>
#include <skald/testing/views.hpp>
#include <skald/testing/wait_until.hpp>
