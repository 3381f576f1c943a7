// What a store writes apart from its one round trip: large bodies, before anything that refers to them; and what it
// writes without a claim.
#include "postgres/postgres_store.hpp"

#include "core/failpoint.hpp"
#include "postgres/body_rows.hpp"
#include "postgres/faults.hpp"
#include "postgres/transaction_text.hpp"
#include "skald_queries.hpp"

namespace skald::postgres {
namespace {

constexpr char const* this_database = "this service's database";

}  // namespace

// In the open transaction. What another store keeps is durable before this one commits; if it does not, nobody refers
// to it, and the purge takes it.
void postgres_store::keep_bodies(ports::changes const& what)
{
    if (what.bodies.empty()) return;
    for (auto const& one : what.bodies) {
        if (!one.bytes) continue;
        options_.body_counts->kept.add();
        options_.body_counts->kept_bytes.add(one.bytes->size());
    }
    if (!options_.bodies) return keep_in_own_database(what);
    for (auto const& one : what.bodies) {
        if (one.bytes) options_.bodies->keep(one.what, *one.bytes);
        else options_.bodies->hold(one.what);
    }
}

void postgres_store::keep_in_own_database(ports::changes const& what)
{
    if (is_lent_) connection_->run(as_ourselves());
    for (auto const& one : what.bodies) {
        if (one.bytes) keep_body(*connection_, one.what, *one.bytes);
        else hold_body(*connection_, one.what);
    }
}

std::string postgres_store::read_body(core::body_reference const& what)
try {
    auto body = read_body_uncounted(what);
    options_.body_counts->reads[metrics::body_read::whole].add();
    options_.body_counts->read_bytes.add(body.size());
    return body;
}
catch (ports::body_fault const& met) {
    using metrics::body_read;
    bool const is_missing = met.what_kind == ports::body_fault::kind::missing;
    options_.body_counts->reads[is_missing ? body_read::missing : body_read::damaged].add();
    throw;
}

std::string postgres_store::read_body_uncounted(core::body_reference const& what)
try {
    if (options_.bodies) return read_apart(what);
    return read_in_own_database(what);
}
catch (pqxx::failure const&) {
    throw record_fault(classify_current_of_ours());
}

// What skald::start() keeps is in the database, whatever the service's settings are: it does not know them.
std::string postgres_store::read_apart(core::body_reference const& what)
try {
    return options_.bodies->read(what);
}
catch (ports::body_fault const& met) {
    if (met.what_kind != ports::body_fault::kind::missing) throw;
    try {
        return read_in_own_database(what);
    }
    catch (ports::body_fault const& here) {
        if (here.what_kind == ports::body_fault::kind::damaged) throw;
    }
    throw;
}

std::string postgres_store::read_in_own_database(core::body_reference const& what)
{
    bool const is_inside = stage_ != stage::none;
    transaction_.reset();
    auto& c = is_inside ? *connection_ : open_set_right();
    auto const give_back = [&] {
        if (is_inside) transaction_.emplace(c.raw());
    };
    try {
        auto body = postgres::read_body(c, what, this_database);
        give_back();
        return body;
    }
    catch (ports::body_fault const&) {
        give_back();
        throw;
    }
}

void postgres_store::write(ports::changes const& what)
{
    auto opening = begin_text(stage::one, {}) + execute("close_transaction");
    try {
        SKALD_FAILPOINT("store.committing");
        if (!what.bodies.empty()) {
            connection_->run(std::exchange(opening, {}));
            keep_bodies(what);
        }
        SKALD_FAILPOINT("store.commit_sent");
        run_commit(opening + changes_text(what) + "COMMIT");
        session_is_used_ = false;
    }
    catch (pqxx::failure const&) {
        auto const met = record_fault(classify_current_at_commit_of_ours());
        rollback();
        throw met;
    }
}

}  // namespace skald::postgres
