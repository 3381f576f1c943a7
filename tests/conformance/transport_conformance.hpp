// What every transport must keep. Run over RabbitMQ and over the in-memory double alike, so that the double is no
// second, secret specification.
//
// A test file makes a fixture and says SKALD_TRANSPORT_CLAIMS(its_fixture) in the namespace skald::test. A fixture has:
//   ports::transport& transport();
//   std::string service();   // the name of a service of its own, new at each call
//   void go_down();          // every connection is lost, and no other can be made
//   void come_back();
#pragma once

#include "transport_conformance_receiving.hpp"
#include "transport_conformance_sending.hpp"

#define SKALD_TRANSPORT_CLAIMS(fixture)                                                                                \
    TEST_CASE_TEMPLATE_INVOKE(transport_delivery, fixture);                                                            \
    TEST_CASE_TEMPLATE_INVOKE(transport_bytes, fixture);                                                               \
    TEST_CASE_TEMPLATE_INVOKE(transport_receipts, fixture);                                                            \
    TEST_CASE_TEMPLATE_INVOKE(transport_refusals, fixture);                                                            \
    TEST_CASE_TEMPLATE_INVOKE(transport_barred, fixture);                                                              \
    TEST_CASE_TEMPLATE_INVOKE(transport_replies, fixture);                                                             \
    TEST_CASE_TEMPLATE_INVOKE(transport_handlers, fixture);                                                            \
    TEST_CASE_TEMPLATE_INVOKE(transport_dotted_keys, fixture);                                                         \
    TEST_CASE_TEMPLATE_INVOKE(transport_acks, fixture);                                                                \
    TEST_CASE_TEMPLATE_INVOKE(transport_requeues, fixture);                                                            \
    TEST_CASE_TEMPLATE_INVOKE(transport_taking, fixture);                                                              \
    TEST_CASE_TEMPLATE_INVOKE(transport_stopping, fixture);                                                            \
    TEST_CASE_TEMPLATE_INVOKE(transport_sharing, fixture);                                                             \
    TEST_CASE_TEMPLATE_INVOKE(transport_outage, fixture);                                                              \
    TEST_CASE_TEMPLATE_INVOKE(transport_outage_meanwhile, fixture);                                                    \
    TEST_CASE_TEMPLATE_INVOKE(transport_giving_up, fixture)
