// All metrics, with their names. Names and labels are a contract with dashboards and alerts: docs/observability.md.
#pragma once

#include "metrics/exposition.hpp"

#include <array>

namespace skald::metrics::of {

inline constexpr description uptime{"skald_uptime_seconds", kind::gauge, "Since this process started."};

// Steps: labels definition, step, direction.
inline constexpr description deliveries{"skald_step_deliveries_total", kind::counter,
                                        "Deliveries of a step that arrived, copies included."};
inline constexpr description redelivered{"skald_step_redelivered_total", kind::counter,
                                         "Of those, the ones that the broker says it delivered before."};
inline constexpr description results{
    "skald_step_results_total", kind::counter,
    "How deliveries ended, after COMMIT: completed is applied, duplicate had no effect, failed is retried."};
inline constexpr description rollbacks{"skald_step_rollbacks_total", kind::counter,
                                       "Transactions of a step that did not commit, by reason."};
inline constexpr description claim_seconds{"skald_step_claim_seconds", kind::histogram,
                                           "BEGIN and the claim, also if they failed, for one transaction of a step."};
inline constexpr description run_seconds{"skald_step_run_seconds", kind::histogram,
                                         "The step's own code, for all deliveries of one transaction."};
inline constexpr description commit_seconds{
    "skald_step_commit_seconds", kind::histogram,
    "The last writes and COMMIT, also if they failed, for one transaction of a step."};
inline constexpr description batch{"skald_step_batch_deliveries", kind::histogram,
                                   "How many deliveries shared a transaction that committed."};

inline constexpr description call_seconds{"skald_step_call_seconds", kind::histogram,
                                          "Calls of an external step, whatever became of them; not the looks."};

// Limits of steps: label step.
inline constexpr description limit_lanes{
    "skald_step_limit_lanes", kind::gauge,
    "How many lanes of this process may run the step at a time now; absent before its first delivery."};
inline constexpr description limit_batch{
    "skald_step_limit_deliveries", kind::gauge,
    "How many deliveries of the step may share a transaction now; absent likewise."};
inline constexpr description limit_turns{"skald_step_takes_turns", kind::gauge,
                                         "1 while the step's transactions take turns with other processes."};
inline constexpr description conflicts{
    "skald_step_conflicts_total", kind::counter,
    "Rolled back because another transaction was in the way: a lock, a deadlock, a serialization failure."};
inline constexpr description limit_changes{"skald_step_limit_changes_total", kind::counter,
                                           "How often the step's limit has changed, by reason."};

// What belongs to no step.
inline constexpr description parked_total{"skald_parked_total", kind::counter,
                                          "Deliveries that this process parked, by reason."};
inline constexpr description reports{"skald_reports_total", kind::counter,
                                     "Reports of other services about sagas of this home that were taken in."};
inline constexpr description commands{"skald_commands_total", kind::counter,
                                      "Commands of operators that were taken in."};
inline constexpr description report_rollbacks{
    "skald_report_rollbacks_total", kind::counter,
    "Reports, commands and unreadable messages whose transaction did not commit, by reason."};
inline constexpr description in_doubt{"skald_commits_in_doubt_total", kind::counter,
                                      "COMMITs whose outcome was unknown, because the connection was lost."};
inline constexpr description in_doubt_resolved{
    "skald_commits_in_doubt_resolved_total", kind::counter,
    "How deliveries and requests of such a COMMIT turned out when the guard was asked again."};

// Publish loops: dispatch sends what was just committed, from memory; the relay sends what is due in the table.
inline constexpr description dispatch_messages{"skald_dispatch_messages_total", kind::counter,
                                               "Messages sent from memory, by the broker's answer."};
inline constexpr description dispatch_wait{"skald_dispatch_wait_seconds", kind::histogram,
                                           "From just before COMMIT until the message was sent from memory."};
inline constexpr description dispatch_confirm{"skald_dispatch_confirm_seconds", kind::histogram,
                                              "From sending from memory until the broker's answer."};
inline constexpr description dispatch_failures{"skald_dispatch_failures_total", kind::counter,
                                               "Passes of the dispatch that broke off."};
inline constexpr description dispatch_available{"skald_dispatch_connected", kind::gauge,
                                                "1 while the dispatch is connected to the broker and may send."};
inline constexpr description relay_messages{"skald_relay_messages_total", kind::counter,
                                            "Messages sent from the table, by the broker's answer."};
inline constexpr description relay_wait{"skald_relay_wait_seconds", kind::histogram,
                                        "From when a row was due until the relay sent it."};
inline constexpr description relay_confirm{"skald_relay_confirm_seconds", kind::histogram,
                                           "From sending from the table until the broker's answer."};
inline constexpr description relay_failures{"skald_relay_failures_total", kind::counter,
                                            "Passes of the relay that broke off."};
inline constexpr description relay_available{"skald_relay_connected", kind::gauge,
                                             "1 while the relay is connected to the broker and may send."};

// Connections.
inline constexpr description consumer_connected{"skald_consumer_connected", kind::gauge,
                                                "1 while this process consumes its queue."};
inline constexpr description database_connected{"skald_database_connected", kind::gauge,
                                                "1 if the maintenance thread reached the database the last time."};

// Requests: label route.
inline constexpr description requests{"skald_http_requests_total", kind::counter, "Responses, by route and status."};
inline constexpr description replayed{"skald_http_replayed_total", kind::counter,
                                      "Responses that were stored, and sent again for a repeated key."};
inline constexpr description request_seconds{"skald_http_request_seconds", kind::histogram,
                                             "From the complete request to its response, waits included."};
inline constexpr description connections{"skald_http_connections", kind::gauge,
                                         "Connections of clients that are open."};
inline constexpr description waits{"skald_http_waits", kind::gauge, "Clients that wait for a later response."};
inline constexpr description lanes_busy{"skald_http_lanes_busy", kind::gauge, "HTTP lanes that run a handler."};
inline constexpr description queued{"skald_http_queued", kind::gauge, "Requests that wait for an HTTP lane."};

// Other systems that external steps call, as this process sees them: label dependency, empty for calls that name none.
inline constexpr description dependency_open{"skald_dependency_open", kind::gauge,
                                             "1 while the breaker is not closed: no call begins, or one at a time."};
inline constexpr description dependency_opened{"skald_dependency_opened_total", kind::counter,
                                               "How often the breaker has opened."};
inline constexpr description dependency_running{"skald_dependency_calls_running", kind::gauge,
                                                "Calls and looks that are under way."};
inline constexpr description dependency_calls{
    "skald_dependency_calls_total", kind::counter,
    "Calls and looks that ended, by how the breaker counts them: nothing says nothing about the other system."};

// Large bodies, which are kept apart from what refers to them: docs/bodies.md.
inline constexpr description bodies_kept{"skald_bodies_kept_total", kind::counter,
                                         "Large bodies that were handed to their store, by transactions that were "
                                         "rolled back too."};
inline constexpr description bodies_kept_bytes{"skald_bodies_kept_bytes_total", kind::counter, "The bytes of those."};
inline constexpr description bodies_read{"skald_bodies_read_total", kind::counter,
                                         "Large bodies that were read, by what was there: a missing or damaged one "
                                         "parks its delivery."};
inline constexpr description bodies_read_bytes{"skald_bodies_read_bytes_total", kind::counter,
                                               "The bytes of those that were whole."};
inline constexpr description bodies_removed{"skald_bodies_removed_total", kind::counter,
                                            "Large bodies that this process removed, since nothing referred to them."};

// What is in front of the guard for requests, where there is something: docs/redis.md.
inline constexpr description front_asked{
    "skald_front_requests_total", kind::counter,
    "Requests that asked what is in front of the guard, by its answer: away is none in time."};
inline constexpr description front_not_asked{
    "skald_front_not_asked_total", kind::counter,
    "Requests that did not ask it, since too few of the latest ones were duplicates to be worth it."};
inline constexpr description front_seconds{"skald_front_seconds", kind::histogram,
                                           "Until it answered such a request, or was found to be away."};
inline constexpr description front_connected{"skald_front_connected", kind::gauge, "1 while it is connected."};
inline constexpr description front_avoided{"skald_front_avoided", kind::gauge,
                                           "1 while its breaker is not closed: most requests do not ask."};
inline constexpr description front_dropped{"skald_front_dropped_total", kind::counter,
                                           "What was to be written there and was not."};
inline constexpr description front_malformed{"skald_front_malformed_total", kind::counter,
                                             "Entries there that were damaged, or of another key."};

// Spans, where a collector is named.
inline constexpr description spans_exported{"skald_trace_spans_exported_total", kind::counter,
                                            "Spans that the collector has taken."};
inline constexpr description spans_dropped{"skald_trace_spans_dropped_total", kind::counter,
                                           "Spans that found no room, or that the collector refused."};

// Read from the database: the same in every process of a service.
inline constexpr description sagas{"skald_sagas", kind::gauge, "Sagas of this home that have not ended, by state."};
inline constexpr description oldest_saga{
    "skald_oldest_saga_seconds", kind::gauge,
    "The age of the oldest of those, without those that wait for a signal or a time in the same database."};
inline constexpr description saga_seconds{"skald_saga_seconds", kind::histogram,
                                          "Sagas that ended since this process started, by their end."};
inline constexpr description outbox_rows{
    "skald_outbox_rows", kind::gauge,
    "Messages in the outbox: due, refused by the broker and tried again, or for later."};
inline constexpr description outbox_overdue{"skald_outbox_overdue_seconds", kind::gauge,
                                            "How long the first message of the outbox has been due, or, if "
                                            "that is longer, how old the first refused one is."};
inline constexpr description parked_rows{"skald_parked_deliveries", kind::gauge,
                                         "Deliveries in skald.parked, by reason."};
inline constexpr description unrouted_rows{"skald_unrouted_messages", kind::gauge,
                                           "Messages in skald.unrouted: no queue was bound for them."};
inline constexpr description started_rows{
    "skald_started_steps", kind::gauge,
    "Steps that have begun and not ended, by what they wait for: a call or a wait."};
inline constexpr description oldest_started{"skald_oldest_started_seconds", kind::gauge,
                                            "How long ago the oldest of those has begun."};
inline constexpr description started_overdue{
    "skald_started_overdue_seconds", kind::gauge,
    "How long the first of those has been due: nobody takes it, or its owner has let its lease end."};
inline constexpr description unknown_calls{"skald_unknown_calls", kind::gauge,
                                           "Calls of which nobody knows what they have done."};
inline constexpr description unsettled{
    "skald_unsettled_steps", kind::gauge,
    "Started steps whose end could not be recorded, three times or more: settle or arrived fails."};
inline constexpr description deadlocks{"skald_database_deadlocks_total", kind::counter,
                                       "Deadlocks in the whole database, as PostgreSQL counts them."};
inline constexpr description figures_age{
    "skald_database_figures_age_seconds", kind::gauge,
    "How old the figures are that were read from the database; before the first, how long they are "
    "missing."};

inline constexpr std::array all{uptime,
                                deliveries,
                                redelivered,
                                results,
                                rollbacks,
                                claim_seconds,
                                run_seconds,
                                commit_seconds,
                                batch,
                                call_seconds,
                                limit_lanes,
                                limit_batch,
                                limit_turns,
                                conflicts,
                                limit_changes,
                                parked_total,
                                reports,
                                commands,
                                report_rollbacks,
                                in_doubt,
                                in_doubt_resolved,
                                dispatch_messages,
                                dispatch_wait,
                                dispatch_confirm,
                                dispatch_failures,
                                dispatch_available,
                                relay_messages,
                                relay_wait,
                                relay_confirm,
                                relay_failures,
                                relay_available,
                                consumer_connected,
                                database_connected,
                                requests,
                                replayed,
                                request_seconds,
                                connections,
                                waits,
                                lanes_busy,
                                queued,
                                dependency_open,
                                dependency_opened,
                                dependency_running,
                                dependency_calls,
                                bodies_kept,
                                bodies_kept_bytes,
                                bodies_read,
                                bodies_read_bytes,
                                bodies_removed,
                                front_asked,
                                front_not_asked,
                                front_seconds,
                                front_connected,
                                front_avoided,
                                front_dropped,
                                front_malformed,
                                spans_exported,
                                spans_dropped,
                                sagas,
                                oldest_saga,
                                saga_seconds,
                                outbox_rows,
                                outbox_overdue,
                                parked_rows,
                                unrouted_rows,
                                started_rows,
                                oldest_started,
                                started_overdue,
                                unknown_calls,
                                unsettled,
                                deadlocks,
                                figures_age};

}  // namespace skald::metrics::of
