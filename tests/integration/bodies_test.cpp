// Data that is too large for its message: kept in the service's database, verified where it is read, and gone when
// nothing refers to it.
#include "admin/maintenance.hpp"
#include "bodies/directory_bodies.hpp"
#include "postgres/body_rows.hpp"
#include "postgres/postgres_store.hpp"
#include "support/depot.hpp"
#include "support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

using namespace skald;
using namespace skald::test;

namespace {

constexpr std::size_t mib = 1024 * 1024;
constexpr int days = 30;

/// A depot whose first step makes the data large.
struct large_depot : depot
{
    explicit large_depot(std::size_t bytes)
    {
        pack = [bytes](step_context& ctx, parcel& p) -> outcome {
            p.id.assign(bytes, 'x');
            note(ctx, "pack");
            return done();
        };
        weigh = [this](step_context& ctx, parcel& p) -> outcome {
            seen = p.id.size();
            note(ctx, "weigh");
            return done();
        };
    }

    // Only the first step, whose message to the second is in the outbox then.
    void pack_only()
    {
        begin();
        at("depot").relay_due();
        REQUIRE(at("depot").process_one());
    }

    void begin()
    {
        host();
        start(send, parcel{"p", 7}, "k");
    }

    std::string bodies() const { return at_db().one("SELECT count(*) FROM skald.body"); }
    skald::test::database const& at_db() const { return const_cast<large_depot&>(*this).db(); }
    void make_old() { db().run("UPDATE skald.body SET touched_at = clock_timestamp() - interval '90 days'"); }
    std::int64_t purge()
    {
        postgres::connection c{{.url = db().url()}};
        ports::purge_place at;
        return admin::purge_bodies(c, nullptr, days, at).gone;
    }
    std::string replay()
    {
        return db().one("SELECT coalesce(skald.replay_parked((SELECT id FROM skald.parked)), 'replayed')");
    }

    std::size_t seen{};
};

}  // namespace

TEST_CASE("a saga with data of almost 64 MiB goes through its steps by reference, and the data is kept once")
{
    large_depot d{64 * mib - 100};
    d.pack_only();
    CHECK(d.db().one("SELECT octet_length(payload) FROM skald.outbox WHERE type = 'weigh'") == "0");
    CHECK(d.db().one(
              "SELECT headers->>'skald-body' LIKE 'sha256:%;size=671%' FROM skald.outbox WHERE type = 'weigh'") == "t");
    d.run();
    CHECK(d.effects() == "pack, weigh, load, sign");
    CHECK(d.seen == 64 * mib - 100);
    CHECK(d.saga_status("k") == "completed");
    CHECK(d.bodies() == "1");
    CHECK(d.parked().empty());
}

TEST_CASE("data of 5 MiB starts a saga in the user's own transaction, is kept once, and its first step reads it")
{
    large_depot d{10};
    std::size_t first{};
    d.pack = [&first](step_context&, parcel& p) -> outcome {
        first = p.id.size();
        return done();
    };
    d.host();
    d.start(send, parcel{std::string(5 * mib, 'x'), 7}, "k");
    CHECK(d.bodies() == "1");
    CHECK(d.db().one("SELECT octet_length(payload) FROM skald.outbox") == "0");
    CHECK(d.db().one("SELECT data->>'skald-body' = kept FROM skald.saga") == "t");
    d.run();
    CHECK(first == 5 * mib);
    CHECK(d.saga_status("k") == "completed");
    d.start(send, parcel{std::string(5 * mib, 'x'), 7}, "k");  // once
    CHECK(d.bodies() == "1");
}

TEST_CASE("what was kept for such a start is read from the database though the service keeps its bodies elsewhere")
{
    large_depot d{10};
    temporary_directory const place;
    std::filesystem::create_directory(place.path() / "ab");  // one that is empty is taken for one that is not mounted
    d.host();
    d.start(send, parcel{std::string(2 * mib, 'x'), 7}, "k");
    auto const what = core::parse_reference(d.db().one("SELECT headers->>'skald-body' FROM skald.outbox"));
    REQUIRE(what);
    postgres::connection_options options{.url = d.db().url()};
    options.bodies = std::make_shared<bodies::directory_bodies>(place.path(), "depot-1");
    postgres::postgres_store store{options};
    CHECK(store.read_body(*what).size() == what->size);
    CHECK(options.body_counts->reads[metrics::body_read::whole].value() == 1);

    d.db().run("DELETE FROM skald.body; DELETE FROM skald.body_part");
    CHECK_THROWS_WITH_AS(store.read_body(*what), doctest::Contains(place.path().c_str()), ports::body_fault);
    CHECK(options.body_counts->reads[metrics::body_read::missing].value() == 1);
}

TEST_CASE("data of more than 1 MiB for another service's step is refused, and says how else to start the saga")
{
    database db{"orders"};
    pqxx::connection c{db.url()};
    pqxx::work tx{c};
    parcel const large{std::string(2 * mib, 'x'), 7};
    CHECK_THROWS_WITH_AS(skald::start(tx, send, large, {"k"}), doctest::Contains("in an HTTP handler"),
                         skald::data_error);
    tx.abort();
}

TEST_CASE("data that fits into its message stays there, and larger data than may be kept is no step's to send")
{
    {
        large_depot d{60'000};
        d.begin();
        d.run();
        CHECK(d.saga_status("k") == "completed");
        CHECK(d.bodies() == "0");
    }
    large_depot d{64 * mib + 1};
    d.begin();
    d.run();
    CHECK(d.bodies() == "0");
    CHECK(d.saga_status("k") == "compensated");
    CHECK(d.db().one("SELECT error FROM skald.idempotency WHERE step = 'pack'").find("at most 67108864") !=
          std::string::npos);
}

TEST_CASE("a delivery whose body is missing is parked, says which, and runs once the body is back")
{
    large_depot d{5 * mib};
    d.pack_only();
    d.db().run(
        "CREATE TABLE saved AS SELECT * FROM skald.body; CREATE TABLE saved_part AS SELECT * FROM skald.body_part;"
        "DELETE FROM skald.body; DELETE FROM skald.body_part");
    d.run();
    CHECK(d.parked() == "depot|body_missing|1");
    CHECK(d.saga_status("k") == "stuck");
    CHECK(d.record("weigh") == "parked|0|0");
    CHECK(d.effects() == "pack");
    CHECK(d.db().one("SELECT strpos(error, split_part(headers->>'skald-body', ';', 1)) > 0 FROM skald.parked") == "t");

    CHECK(d.replay() == "replayed");
    d.run();
    CHECK(d.parked() == "depot|body_missing|1");

    d.db().run("INSERT INTO skald.body SELECT * FROM saved; INSERT INTO skald.body_part SELECT * FROM saved_part");
    CHECK(d.replay() == "replayed");
    d.run();
    CHECK(d.effects() == "pack, weigh, load, sign");
    CHECK(d.saga_status("k") == "completed");
}

TEST_CASE("a delivery whose body is damaged is parked, and never runs with it")
{
    large_depot d{5 * mib};
    d.pack_only();
    SUBCASE("a byte is another")
    {
        d.db().run("UPDATE skald.body_part SET bytes = set_byte(bytes, 100, 1) WHERE part = 3");
    }
    SUBCASE("a part is gone")
    {
        d.db().run("DELETE FROM skald.body_part WHERE part = 3");
    }
    d.run();
    CHECK(d.parked() == "depot|body_damaged|1");
    CHECK(d.effects() == "pack");
}

TEST_CASE("a malformed reference is parked as malformed")
{
    large_depot d{5 * mib};
    d.pack_only();
    d.db().run(
        "UPDATE skald.outbox SET headers = headers || '{\"skald-body\": \"sha256:12;size=1\"}' WHERE type = 'weigh'");
    d.run();
    CHECK(d.parked() == "depot|malformed|1");
}

TEST_CASE("what is tried again and what is undone carry the reference on")
{
    large_depot d{5 * mib};
    int tries = 0;
    d.load = [&tries](step_context& ctx, parcel&) -> outcome {
        if (++tries < 3) throw std::runtime_error{"jammed"};
        note(ctx, "no load");
        return reject("full");
    };
    std::size_t undone = 0;
    d.undo_weigh = [&undone](step_context&, parcel& p) { undone = p.id.size(); };
    d.begin();
    d.run();
    CHECK(tries == 3);
    CHECK(undone == 5 * mib);
    CHECK(d.saga_status("k") == "compensated");
    CHECK(d.bodies() == "1");
}

TEST_CASE("a purge removes a body when no row refers to it, and not before")
{
    large_depot d{5 * mib};
    d.pack_only();
    d.make_old();
    CHECK(d.purge() == 0);  // a row of the outbox does
    CHECK(d.db().one("SELECT touched_at > clock_timestamp() - interval '1 minute' FROM skald.body") == "t");
    d.db().run("UPDATE skald.body_part SET bytes = set_byte(bytes, 100, 1) WHERE part = 3");
    d.run();
    REQUIRE(d.parked() == "depot|body_damaged|1");
    d.make_old();
    CHECK(d.purge() == 0);  // a parked delivery does
    CHECK(d.bodies() == "1");
    d.db().run("SELECT skald.drop_parked(id, 'test', NULL, true) FROM skald.parked");
    CHECK(d.purge() == 0);  // it was just referred to, and a message of it may be under way
    d.make_old();
    CHECK(d.purge() == 1);
    CHECK(d.bodies() == "0");
    CHECK(d.db().one("SELECT count(*) FROM skald.body_part") == "0");
}

TEST_CASE("a purge takes no more than 256 MiB at a time, and says that there is more")
{
    database db{"depot"};
    db.run("INSERT INTO skald.body (fingerprint, size, touched_at) SELECT sha256(n::text::bytea), 67108864, "
           "clock_timestamp() - interval '90 days' FROM generate_series(1, 6) AS n");
    postgres::connection c{{.url = db.url()}};
    ports::purge_place at;
    std::vector<std::pair<std::int64_t, bool>> batches;
    do {
        auto const done = admin::purge_bodies(c, nullptr, days, at);
        batches.emplace_back(done.gone, done.is_all);
    } while (!batches.back().second && batches.size() < 10);
    CHECK(batches == std::vector<std::pair<std::int64_t, bool>>{{4, false}, {2, false}, {0, true}});
}

TEST_CASE("a body that is kept again while a purge looks at it is there afterwards")
{
    database db{"depot"};
    std::string const bytes(200'000, 'x');
    auto const what = core::reference_to(bytes, "");
    postgres::connection keeping{{.url = db.url()}}, purging{{.url = db.url()}};
    auto const keep = [&] {
        keeping.run("BEGIN");
        postgres::keep_body(keeping, what, bytes);
        keeping.run("COMMIT");
    };
    for (int round = 0; round < 50; ++round) {
        keep();
        purging.run("UPDATE skald.body SET touched_at = clock_timestamp() - interval '90 days'");
        std::thread purge{[&] {
            ports::purge_place at;
            admin::purge_bodies(purging, nullptr, days, at);
        }};
        keep();
        purge.join();
        REQUIRE(postgres::read_body(keeping, what, "here") == bytes);
    }
}
