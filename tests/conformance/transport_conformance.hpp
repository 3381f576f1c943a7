// What every transport must keep. Run over RabbitMQ and over the in-memory double alike, so that the double is no
// second, secret specification.
//
// A test file makes a world and says SKALD_TRANSPORT_CLAIMS(its_world) in the namespace skald::test. A world has:
//   ports::transport& transport();
//   std::string service();   // the name of a service of its own, new at each call
//   void go_down();          // every connection is lost, and no other can be made
//   void come_back();
#pragma once

#include "transport_conformance_receiving.hpp"
#include "transport_conformance_sending.hpp"

#define SKALD_TRANSPORT_CLAIMS(world)                                                                                  \
    TEST_CASE_TEMPLATE_INVOKE(transport_delivery, world);                                                              \
    TEST_CASE_TEMPLATE_INVOKE(transport_bytes, world);                                                                 \
    TEST_CASE_TEMPLATE_INVOKE(transport_receipts, world);                                                              \
    TEST_CASE_TEMPLATE_INVOKE(transport_refusals, world);                                                              \
    TEST_CASE_TEMPLATE_INVOKE(transport_acks, world);                                                                  \
    TEST_CASE_TEMPLATE_INVOKE(transport_requeues, world);                                                              \
    TEST_CASE_TEMPLATE_INVOKE(transport_taking, world);                                                                \
    TEST_CASE_TEMPLATE_INVOKE(transport_stopping, world);                                                              \
    TEST_CASE_TEMPLATE_INVOKE(transport_sharing, world);                                                               \
    TEST_CASE_TEMPLATE_INVOKE(transport_outage, world);                                                                \
    TEST_CASE_TEMPLATE_INVOKE(transport_outage_meanwhile, world);                                                      \
    TEST_CASE_TEMPLATE_INVOKE(transport_giving_up, world)
