// A rehearsal's report in words: how the step would end, and what would become of its saga.
#include "support/rehearsed_depot.hpp"

#include <skald/errors.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

using nlohmann::json;
using skald::rehearsal::in_words;
using skald::test::note;
using skald::test::waiting_depot;

namespace {

bool has_line(std::string const& text, std::string const& line)
{
    return ('\n' + text).find('\n' + line + '\n') != std::string::npos;
}

}  // namespace

TEST_CASE("the words say how the step would end, and what becomes of the saga: on, at its end, undone")
{
    waiting_depot d;
    auto const ends = [&](std::string const& key) {
        auto const text = in_words(d.rehearsed(key));
        auto const from = text.find("  ends: ") + 8;
        return text.substr(from, text.find('\n', from) - from);
    };
    CHECK(ends("k:weigh") == "done: it would be completed; the saga would go on");
    CHECK(ends("k:sign") == "done: it would be completed; the saga would be completed with it");
    CHECK(ends("k:weigh.compensate") == "cancelled: it would not run; the saga would compensate");  // nothing to undo
    CHECK(ends("k:pack.compensate") ==
          "done: it would be completed; the saga would be compensated: no other step is left to undo");
    CHECK_THROWS_WITH_AS(d.rehearsed("k:load.compensate"), "load can't be undone: it is the pivot",
                         skald::configuration_error);
    d.weigh = [](auto&, auto&) { return skald::reject("too heavy"); };
    CHECK(ends("k:weigh") == "rejected; the saga would compensate");
    d.weigh = [](auto&, auto&) -> skald::outcome { throw std::runtime_error{"away"}; };
    CHECK(ends("k:weigh") == "failed: it would be tried again");
    d.attempts_max = 2;
    CHECK(ends("k:weigh") == "failed for the last time; the saga would compensate");
    d.weigh = [](auto&, auto&) { return skald::snooze(std::chrono::seconds{1}); };
    CHECK(ends("k:weigh") == "snoozed: it would run again later");
    d.db().run("UPDATE skald.idempotency SET status = 'completed' WHERE step = 'weigh'");
    CHECK(ends("k:weigh.compensate") == "done: it would be completed; the saga would compensate");
    d.db().run("UPDATE skald.idempotency SET status = 'retrying' WHERE step = 'weigh'");
    d.db().run("INSERT INTO skald.control (scope, key, home, action) VALUES ('', 'k', 'depot', 'cancel')");
    CHECK(ends("k:weigh") == "cancelled: it would not run; the saga would compensate");
    d.db().run("UPDATE skald.control SET action = 'close'");
    CHECK(ends("k:weigh") == "closed: it would not run, and would be parked");
    d.db().run("DELETE FROM skald.control; "
               "UPDATE skald.outbox SET headers = headers || '{\"x-saga-version\": \"2\"}'");
    CHECK(ends("k:weigh") == "it would wait for a process that knows its step or its version of the saga");
}

TEST_CASE("the words have an error's lines, and say where nothing would be written or sent")
{
    waiting_depot d;
    auto const refused = in_words(d.rehearsed([](auto& ctx, auto&) {
        ctx.tx().exec("SELECT 1 / 0 FROM nowhere");
        return skald::done();
    }));
    INFO(refused);
    CHECK(has_line(refused, "    ERROR:  relation \"nowhere\" does not exist; LINE 1: SELECT 1 / 0 FROM nowhere"));
    auto const failed = in_words(d.rehearsed(
        [](auto&, auto&) -> skald::outcome { throw std::runtime_error{"the scales are off:\n  12 kg\n  7 kg"}; }));
    INFO(failed);
    CHECK(has_line(failed, "    the scales are off:"));
    CHECK(has_line(failed, "      7 kg"));
    CHECK(failed.find("  locks:") == std::string::npos);
    d.compares_rows = false;  // reading them would wait for the same lock
    pqxx::connection other{d.db().url()};
    pqxx::work holding{other};
    holding.exec("LOCK TABLE effect");
    auto const waits = in_words(d.rehearsed([](auto& ctx, auto&) {
        note(ctx, "waits");
        return skald::done();
    }));
    INFO(waits);
    CHECK(has_line(waits, "  would write nothing"));
    CHECK(has_line(waits, "  would send nothing"));
    CHECK(waits.find("    waited for session " + std::to_string(other.backendpid())) != std::string::npos);
}

TEST_CASE("the words have each row, what is not listed, each message and each lock on a line")
{
    json const report{{"key", "k:weigh"},
                      {"definition", "send"},
                      {"from", "row 7 of the outbox"},
                      {"notes", {"it runs alone"}},
                      {"ends", "done"},
                      {"took_ms", 12.34},
                      {"step_ms", 1.0},
                      {"tables",
                       {{{"table", "public.shelf"},
                         {"inserted", 1},
                         {"updated", 300},
                         {"deleted", 1},
                         {"rows",
                          {{{"op", "insert"}, {"after", {{"place", 1}}}},
                           {{"op", "update"}, {"before", {{"place", 2}}}, {"after", {{"place", 3}}}},
                           {{"op", "delete"}, {"before", {{"place", 4}}}}}},
                         {"not_listed", "at most 200 are listed"}},
                        {{"table", "public.ledger"}, {"inserted", 2}, {"updated", 0}, {"deleted", 0}}}},
                      {"messages",
                       {{{"type", "load"}, {"destination", "depot"}, {"delay_ms", 0}, {"body", "{}"}},
                        {{"type", "raw"}, {"destination", "audit\x1b[2J"}, {"delay_ms", 50}, {"body_hex", "ff"}}}},
                      {"locks", {{{"mode", "RowExclusiveLock"}, {"on", "public.shelf"}}}},
                      {"waited_for", json::array()}};
    auto const text = in_words(report);
    INFO(text);
    for (auto const* const line :
         {"k:weigh of send, rehearsed with row 7 of the outbox", "  note: it runs alone",
          "  took: 12.3 ms, 1.0 ms of it in the step", "    public.shelf: 1 inserted, 300 updated, 1 deleted",
          "      insert {\"place\":1}", "      update {\"place\":2} -> {\"place\":3}", "      delete {\"place\":4}",
          "      not all writes are listed: at most 200 are listed", "    public.ledger: 2 inserted",
          "    load to depot: {}", "    RowExclusiveLock on public.shelf"})
        CHECK_MESSAGE(has_line(text, line), line);
    CHECK_MESSAGE(text.find('\x1b') == std::string::npos, "what others wrote does not reach the terminal as it is");
    CHECK(text.find(" after 50 ms: ff\n") != std::string::npos);
}

TEST_CASE("the words do not say that nothing would be written where that is not known")
{
    waiting_depot d;
    auto report = d.rehearsed([](auto&, auto&) { return skald::done(); });
    report["tables"] = nullptr;
    auto const text = in_words(report);
    INFO(text);
    CHECK(has_line(text, "  what it would write is not known"));
    CHECK(text.find("would write nothing") == std::string::npos);
}
