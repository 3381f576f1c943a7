// Messages of users' own that no queue is bound for: in nobody's way, and sent once there is one.
#include "support/amqp_hands.hpp"
#include "support/depot.hpp"
#include "support/fresh_database.hpp"
#include "support/running_service.hpp"

#include <skald/testing/wait_until.hpp>

#include <doctest/doctest.h>

using namespace skald::test;
using namespace std::chrono_literals;

namespace {

constexpr auto kept = "SELECT count(*) FROM skald.unrouted";
constexpr auto waiting = "SELECT count(*) FROM skald.outbox";
constexpr auto known = "SELECT destination, dropped FROM skald.unrouted_destination";

void publish(database const& db, std::string const& destination, int times, std::string const& more = "")
{
    db.run("SELECT skald.enqueue('" + destination + "', 'booked', 'event-' || n, '{}'" + more +
           ") FROM generate_series(1, " + std::to_string(times) + ") n");
}

void look_again(database const& db)
{
    db.run("UPDATE skald.unrouted_destination SET probe_at = clock_timestamp()");
    db.run("SELECT skald.retry_unrouted()");
}

struct note_trip final : skald::retriable_step<parcel>
{
    explicit note_trip(std::string to, skald::unrouted p) : destination{std::move(to)}, policy{p} {}
    skald::forward_outcome execute(skald::step_context& ctx, parcel& p) const override
    {
        for (int n = 0; n < 50; ++n) ctx.publish(destination, "booked", {{"id", p.id}, {"n", n}}, policy);
        return skald::done();
    }
    std::string destination;
    skald::unrouted policy;
};

constexpr skald::retriable<parcel> note_step{"note-trip", "eventful"};
constexpr auto note_saga = skald::define("note", note_step);

// A service that publishes to a destination that is nobody else's.
struct eventful
{
    explicit eventful(skald::unrouted policy = skald::unrouted::keep) : destination{"trips-" + random_word()}
    {
        service.host(note_saga, note_step, note_trip{destination, policy});
        service.start();
    }

    void run_saga(std::string const& key) const
    {
        pqxx::connection c{service.db.url()};
        pqxx::work tx{c};
        skald::start(tx, note_saga, parcel{"p", 7}, {.key = key});
        tx.commit();
    }

    bool comes_to(std::string const& sql, std::string const& answer) const
    {
        return skald::testing::wait_until([&] { return service.db.rows(sql) == answer; }, 30s);
    }

    std::string destination;
    running_service service{"eventful"};
};

}  // namespace

TEST_CASE("a step's messages that no queue is bound for leave the outbox, and arrive once there is a queue")
{
    eventful e;
    e.run_saga("k1");
    CHECK(e.comes_to(kept, "50"));
    CHECK(e.comes_to(waiting, "0"));
    CHECK(e.service.db.one("SELECT status FROM skald.saga") == "completed");
    CHECK(e.service.db.rows(known) == e.destination + "|0");

    amqp_hands broker{amqp_place{required("AMQP_URL")}};
    broker.declare_queue(e.destination);
    broker.bind(e.destination, "skald", e.destination);
    CHECK(skald::testing::wait_until(
        [&] {
            e.service.db.run("UPDATE skald.unrouted_destination SET probe_at = clock_timestamp()");
            return e.service.db.one("SELECT count(*) FROM skald.unrouted_destination") == "0";
        },
        30s));
    CHECK(e.comes_to(waiting, "0"));
    CHECK(e.service.db.one(kept) == "0");
    CHECK(broker.waiting_in(e.destination) == 50);
    broker.delete_queue(e.destination);
}

TEST_CASE("a step's messages that may be dropped are gone where no queue is bound, and counted")
{
    eventful e{skald::unrouted::drop};
    e.run_saga("k2");
    CHECK(e.comes_to(known, e.destination + "|50"));
    CHECK(e.comes_to(waiting, "0"));
    CHECK(e.service.db.one(kept) == "0");
}

TEST_CASE("messages of users' own that came back are no backlog, and those to services are, which wait for their queue")
{
    depot d;
    publish(d.db(), "trips", 30);
    d.at("depot").relay_due();
    CHECK(d.db().one("SELECT skald.outbox_is_over(5, '-infinity')") == "f");
    CHECK(d.db().one(kept) == "30");

    publish(d.db(), "payments", 30, ", '{\"x-saga-itinerary\": \"forward\"}'");
    d.at("depot").relay_due();
    CHECK(d.db().one("SELECT skald.outbox_is_over(5, '-infinity')") == "t");
    CHECK(d.db().one(kept) == "30");
}

TEST_CASE("of a destination without a queue the newest 10,000 are kept, and the others are counted")
{
    depot d;
    d.db().run("INSERT INTO skald.unrouted (id, aggregatetype, aggregateid, type, payload, idempotency_key, headers, "
               "scope, content_type, destination, due_at, attempts, created_at, if_unrouted)"
               "SELECT -n, 'a', 'a', 'booked', '', 'k', '{}', '', 'text/plain', 'trips', now(), 1, now(), 'keep'"
               "  FROM generate_series(1, 9999) n");
    publish(d.db(), "trips", 7);
    publish(d.db(), "hotels", 1);
    d.at("depot").relay_due();
    CHECK(d.db().rows("SELECT destination, count(*), max(id) > 0 FROM skald.unrouted GROUP BY 1 ORDER BY 1") ==
          "hotels|1|t\ntrips|10000|t");
    CHECK(d.db().rows(std::string{known} + " ORDER BY 1") == "hotels|0\ntrips|6");
}

TEST_CASE("one message at a time is sent to a destination without a queue, and all that are left once it went through")
{
    depot d;
    publish(d.db(), "trips", 600);
    while (d.db().one(waiting) != "0") d.at("depot").relay_due();
    CHECK(d.db().one(kept) == "600");
    look_again(d.db());
    CHECK(d.db().one(waiting) == "1");
    look_again(d.db());  // the broker has not answered yet
    CHECK(d.db().one(waiting) == "1");
    d.at("depot").relay_due();
    CHECK(d.db().one(kept) == "600");

    d.transport().declare("trips");
    look_again(d.db());
    d.at("depot").relay_due();
    CHECK(d.db().one(kept) == "599");
    look_again(d.db());
    CHECK(d.db().one(waiting) == "500");
    d.at("depot").relay_due();
    look_again(d.db());
    CHECK(d.db().one(waiting) == "99");
    d.at("depot").relay_due();
    look_again(d.db());
    CHECK(d.db().one(kept) == "0");
    CHECK(d.db().one("SELECT count(*) FROM skald.unrouted_destination") == "0");
}

TEST_CASE("what SQL enqueues is a service's where it has an itinerary or is Skald's own, and a user's otherwise")
{
    depot d;
    publish(d.db(), "a", 1);
    publish(d.db(), "b", 1, ", if_unrouted => 'drop'");
    publish(d.db(), "c", 1, ", '{\"x-saga-itinerary\": \"forward\"}'");
    d.db().run("SELECT skald.enqueue('d', 'skald.progress', 'k', '[]')");
    CHECK(d.db().rows("SELECT destination, coalesce(if_unrouted, '-') FROM skald.outbox ORDER BY 1") ==
          "a|keep\nb|drop\nc|-\nd|-");
    CHECK_THROWS_AS(publish(d.db(), "e", 1, ", if_unrouted => 'burn'"), pqxx::sql_error);
}
