// What a home makes of other services' reports, many in one message.
#include "support/database.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

class home
{
public:
    home()
    {
        for (char const* key : {"a", "b", "c", "d"})
            db.run(std::string{"INSERT INTO skald.saga (scope, key, definition, data, itinerary) VALUES ('', '"} + key +
                   "', 'd', '{}', '')");
    }

    /// `saga` and `reason`: as in SQL.
    static std::string report(std::string const& key, std::string const& step, std::string const& status, int second,
                              std::string const& saga = "NULL", std::string const& reason = "NULL")
    {
        return "jsonb_build_object('scope', '', 'key', '" + key + "', 'step', '" + step +
               "', 'service', 's', 'status', '" + status + "', 'attempts', 1, 'at', '2026-01-31T12:00:0" +
               std::to_string(second) + "Z', 'saga', " + saga + ", 'reason', " + reason + ")";
    }

    void note(std::string const& reports) const
    {
        db.run("SELECT skald.note_progress(jsonb_build_array(" + reports + "))");
    }

    std::string sagas() const
    {
        return db.rows(
            "SELECT key, status, coalesce(reason, '-'), finished_at IS NOT NULL FROM skald.saga ORDER BY key");
    }

    skald::test::database const db{"s"};
};

}  // namespace

TEST_CASE("reports of several sagas in one message: each goes as its own say, whatever stands beside them")
{
    home h;
    h.note(home::report("b", "pay", "rejected", 1, "'compensating'", "'no money'") + ", " +
           home::report("a", "pay", "completed", 1) + ", " + home::report("a", "ship", "completed", 2, "'completed'") +
           ", " + home::report("c", "pay", "completed", 1, "'running'") + ", " +
           home::report("b", "make.compensate", "completed", 2, "'compensated'"));
    CHECK(h.sagas() == "a|completed|-|t\nb|compensated|no money|t\nc|running|-|f\nd|running|-|f");
    CHECK(h.db.one("SELECT count(*) FROM skald.progress") == "5");
}

TEST_CASE("what has ended stays as it ended, and a saga that was stuck completes like any other")
{
    home h;
    h.note(home::report("a", "ship", "completed", 1, "'completed'"));
    auto const finished = h.db.one("SELECT finished_at FROM skald.saga WHERE key = 'a'");
    h.note(home::report("a", "ship", "completed", 1, "'completed'") + ", " +
           home::report("a", "pay", "rejected", 1, "'compensating'", "'late'"));
    CHECK(h.db.one("SELECT finished_at FROM skald.saga WHERE key = 'a'") == finished);

    h.note(home::report("b", "ship", "parked", 1, "'stuck'", "'broken'"));
    CHECK(h.db.rows("SELECT status, reason FROM skald.saga WHERE key = 'b'") == "stuck|broken");
    h.note(home::report("b", "ship", "completed", 2, "'completed'"));
    h.db.run("UPDATE skald.saga SET status = 'compensated', reason = 'no', finished_at = now() WHERE key = 'c'");
    h.note(home::report("c", "ship", "completed", 2, "'completed'"));
    CHECK(h.sagas() == "a|completed|-|t\nb|completed|-|t\nc|compensated|no|t\nd|running|-|f");
}
