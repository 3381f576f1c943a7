#include "mutants.hpp"

#include <stdexcept>

namespace skald::crash {
namespace {

/// The claim as it would be with a plain SELECT: two that read at the same time both see nothing.
std::string guard_by_select(std::string claim)
{
    std::string const insert = "FROM want w ORDER BY w.s, w.k, w.t";
    auto const at = claim.find(insert);
    if (at == std::string::npos) throw std::runtime_error{"skald.claim has changed: adapt the mutant guard_by_select"};
    claim.insert(
        at + std::string{"FROM want w"}.size(),
        " WHERE NOT EXISTS (SELECT FROM skald.idempotency e WHERE (e.scope, e.key, e.step) = (w.s, w.k, w.t))");
    return claim;
}

constexpr char const* undo_of_what_never_ran = "CREATE OR REPLACE FUNCTION skald.undoable(for_scope text, for_key "
                                               "text, compensation text, for_home text) RETURNS boolean "
                                               "LANGUAGE sql AS 'SELECT true'";

}  // namespace

std::vector<mutant> const& all_mutants()
{
    static std::vector<mutant> const all{
        {"ack_before_commit", {"step.before_commit=kill@1/forward/payments"}},
        {"delete_before_confirm", {"handed.taken=reset@1/forward/orders"}},
        {"no_mandatory", {"unrouted"}},
        {"partial_commit", {"store.committing=kill@1/forward/payments"}},
        {"retry_in_broker_only", {"broken"}},
        {"busy_is_duplicate", {"busy"}},
        {"no_transaction_check", {"commits_itself"}},
        {"in_doubt_as_committed", {"store.committing=reset@1/forward/payments"}},
        {"in_doubt_as_failed", {"store.commit_sent=reset@1/forward/orders"}},
        {"answer_not_stored", {"forward"}},
        {"retention_too_short", {"purged"}},
        {"handed_over_early", {"store.committing=sleep:400@1/forward/payments"}},
        {"failed_batch_acked", {"step.claimed=throw@2/together/payments"}},
        {"aborted_batch_committed", {"together-one-declined"}},
        {"open_batch_committed", {"together-one-commits_itself"}},
        {"guard_by_select", {"step.ran=sleep:500@1/twice/payments"}, true},
        {"undo_of_what_never_ran", {"overtaken"}, true},
    };
    return all;
}

void mutate_guard(shop_system& shop, std::string_view name)
{
    for (std::size_t i = 0; i < services.size(); ++i) {
        auto& database = shop.database(i);
        if (name == "undo_of_what_never_ran") database.ask(undo_of_what_never_ran);
        if (name != "guard_by_select") continue;
        auto const claim = database.value("SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = 'claim' AND "
                                          "pronamespace = 'skald'::regnamespace");
        auto const key = database.value("SELECT conname FROM pg_constraint WHERE contype = 'p' AND conrelid = "
                                        "'skald.idempotency'::regclass");
        database.ask(guard_by_select(claim) + "; ALTER TABLE skald.idempotency DROP CONSTRAINT " + key);
    }
}

}  // namespace skald::crash
