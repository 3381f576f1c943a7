// A depot with many parcels at once: what arrives together is processed together.
#pragma once

#include "support/depot.hpp"

#include <string>
#include <vector>

namespace skald::test {

inline script done_for_each(std::string const& what)
{
    return [what](skald::step_context& ctx, parcel& p) -> skald::outcome {
        note(ctx, what + ":" + p.id);
        return skald::done();
    };
}

/// Each parcel's id is its saga's key: p1, p2, ... Every step records for which parcel it was done.
class busy_depot : public depot
{
public:
    // A savepoint has its own transaction id, which a row's xmin shows: so this asks for the top-level one.
    busy_depot()
    {
        db().run("ALTER TABLE effect ADD COLUMN tx xid8 DEFAULT pg_current_xact_id()");
        pack = done_for_each("pack");
        weigh = done_for_each("weigh");
        load = done_for_each("load");
        sign = done_for_each("sign");
    }

    void start_all(int parcels)
    {
        host();
        for (int n = 1; n <= parcels; ++n) {
            auto const id = "p" + std::to_string(n);
            start(send, parcel{id, n}, id);
        }
    }

    /// Sends what is due, and processes all that waits at once. Returns how many deliveries there were.
    std::size_t step(std::size_t max = 64)
    {
        at("depot").relay_due();
        return at("depot").process_all(max);
    }

    void run_all()
    {
        for (int idle = 0; idle < 2;) {
            at("depot").make_due();
            idle = step() > 0 ? 0 : idle + 1;
        }
    }

    /// How often each kind of thing took effect: "pack 10, weigh 9".
    std::string counts()
    {
        return db().one("SELECT string_agg(what || ' ' || n, ', ' ORDER BY what) FROM"
                        " (SELECT split_part(what, ':', 1) AS what, count(*) AS n FROM effect GROUP BY 1) AS c");
    }

    /// Nothing took effect twice for one parcel.
    bool once_each() { return db().one("SELECT count(*) = count(DISTINCT what) FROM effect") == "t"; }

    std::string sagas()
    {
        return db().one("SELECT string_agg(status || ' ' || n, ', ' ORDER BY status) FROM"
                        " (SELECT status::text, count(*) AS n FROM skald.saga GROUP BY 1) AS s");
    }

    /// Transactions in which things of this kind took effect.
    std::string transactions(std::string const& what)
    {
        return db().one("SELECT count(DISTINCT tx::text) FROM effect WHERE split_part(what, ':', 1) = '" + what + "'");
    }
};

}  // namespace skald::test
