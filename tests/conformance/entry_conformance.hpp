// What skald::entry keeps behind every HTTP server: run over Skald's own and over another, so that the guard does not
// lean on the server in front of it.
//
// A test file makes a server and says SKALD_ENTRY_CLAIMS(its_server) in the namespace skald::test. A server has:
//   its_server(skald::entry&, skald::config const&, skald::core::logger&);   // listens, and gives the entry what comes
//   std::uint16_t port();
#pragma once

#include "entry_conformance_draft.hpp"
#include "entry_conformance_resources.hpp"

#define SKALD_ENTRY_CLAIMS(server)                                                                                     \
    TEST_CASE_TEMPLATE_INVOKE(entry_draft_keys, server);                                                               \
    TEST_CASE_TEMPLATE_INVOKE(entry_draft_retries, server);                                                            \
    TEST_CASE_TEMPLATE_INVOKE(entry_draft_errors, server);                                                             \
    TEST_CASE_TEMPLATE_INVOKE(entry_draft_security, server);                                                           \
    TEST_CASE_TEMPLATE_INVOKE(entry_problem_types, server);                                                            \
    TEST_CASE_TEMPLATE_INVOKE(entry_replays, server);                                                                  \
    TEST_CASE_TEMPLATE_INVOKE(entry_kinds_of_routes, server);                                                          \
    TEST_CASE_TEMPLATE_INVOKE(entry_paths, server);                                                                    \
    TEST_CASE_TEMPLATE_INVOKE(entry_scopes, server);                                                                   \
    TEST_CASE_TEMPLATE_INVOKE(entry_sagas, server);                                                                    \
    TEST_CASE_TEMPLATE_INVOKE(entry_waits, server);                                                                    \
    TEST_CASE_TEMPLATE_INVOKE(entry_many_at_a_time, server);                                                           \
    TEST_CASE_TEMPLATE_INVOKE(entry_closed, server)
