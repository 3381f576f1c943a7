// A saga goes on under a newer build, and under an older one: in the test kit.
#include "tests/support/rentals.hpp"

#include <skald/testing.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace skald;
using namespace skald::test;
using skald::testing::rows;

namespace {

template <int Stock, int Bank>
std::unique_ptr<skald::testing::harness> make_rentals()
{
    auto kit = std::make_unique<skald::testing::harness>();
    kit->add(rental_service<Stock>("stock")).add(rental_service<Bank>("bank"));
    return kit;
}

bool is_in(std::string const& text, std::string const& part)
{
    return text.find(part) != std::string::npos;
}

constexpr auto handed_over = "SELECT who || ': ' || trail || ' ' || note FROM did WHERE step = 'hand-over'";

// What `skald parked export` printed of a version 1 that was in production: it must stay readable.
constexpr auto recorded_1 =
    R"({"format":"skald.delivery/1","destination":"stock","message_id":"k:hand-over","type":"hand-over",)"
    R"("content_type":"application/json","headers":{"x-idempotency-key":"k:hand-over","x-saga-scope":"",)"
    R"("x-saga":"rent","x-saga-version":"1","x-saga-home":"stock","x-attempt":"1",)"
    R"("x-saga-itinerary":"forward 3/3 reserve@stock=compensatable charge@bank=pivot hand-over@stock=retriable"},)"
    R"("body":"{\"id\":\"k\",\"customer\":\"ann\",\"trail\":\"reserve charge\",\"extra\":1.50}"})";

// The first delivery of a saga of that version, as a process with SKALD_RECORD_DELIVERIES writes it.
std::string began(std::string const& version, std::string const& steps, std::string const& data)
{
    return R"({"format":"skald.delivery/1","destination":"stock","message_id":"k:reserve","type":"reserve",)"
           R"("content_type":"application/json","headers":{"x-idempotency-key":"k:reserve","x-saga-scope":"",)"
           R"("x-saga":"rent","x-saga-version":")" +
           version + R"(","x-saga-home":"stock","x-attempt":"1","x-saga-itinerary":"forward 1/)" + steps +
           R"( hand-over@stock=retriable"},"body":"{)" + data + "}\"}\n";
}

std::string const began_with_1 = began("1", "3 reserve@stock=compensatable charge@bank=pivot",
                                       R"(\"id\":\"k\",\"customer\":\"ann\",\"trail\":\"\",\"extra\":1.50)");
std::string const began_with_2 =
    began("2", "4 reserve@stock=compensatable insure@bank=compensatable charge@bank=pivot",
          R"(\"id\":\"k\",\"customer\":\"ann\",\"trail\":\"\",\"note\":\"gift\",\"extra\":1.50)");

// The compensations write down what they got, too.
std::vector<skald::testing::remaining> const written_down{{"stock", "did"}, {"bank", "did"}};
skald::testing::proof_options const quickly{.quick = true, .remains = written_down};

// As version 3, with an upcast that forgets the note.
service forgetful_service(std::string const& name)
{
    using v = rental_version<3>;
    static constexpr auto plan = define("rent", v::reserve, v::charge, v::hand_over)
                                     .versioned(3, upcast<rental_2, rental_3>([](rental_2 const& old) {
                                                    return rental_3{old.id, old.customer, old.trail, {}};
                                                }))
                                     .retired(v::insure);
    service s{name};
    s.migrate("0001_did", rental_tables);
    if (name == "stock")
        s.host(plan, v::reserve, undoable<rental_3>{"reserve"}).host(plan, v::hand_over, handing_over<rental_3>{});
    else s.host(plan, v::charge, charging_rent<rental_3>{}).host(plan, v::insure, undoable<rental_3>{"insure"});
    return s;
}

}  // namespace

TEST_CASE("a saga of version 1 ends under the builds of version 2 and of version 3, on its own plan")
{
    for (bool const is_third : {false, true}) {
        auto const kit = is_third ? make_rentals<3, 3>() : make_rentals<2, 2>();
        auto const key = kit->start(rental_version<1>::plan, rental_1{"1", "ann", ""}, {.key = "k"});
        kit->run_to_the_end();
        CHECK(kit->saga_is(key, "completed"));
        CHECK(kit->ask("stock", handed_over) == rows{"ann: reserve charge "});
        CHECK(kit->ask("bank", "SELECT step FROM did") == rows{"charge"});
    }
}

TEST_CASE("a saga of version 2 has its retired step under the build of version 3, and keeps the form of its data")
{
    auto const kit = make_rentals<3, 3>();
    auto const key = kit->start(rental_version<2>::plan, rental_2{"1", "ann", "", "gift"}, {.key = "k"});
    kit->run_to_the_end();
    CHECK(kit->saga_is(key, "completed"));
    CHECK(kit->ask("stock", handed_over) == rows{"ann: reserve insure charge gift"});
    for (auto const& m : kit->sent())
        if (m.destination == "bank") CHECK(is_in(m.body, "\"customer\":\"ann\""));
}

TEST_CASE("a saga of version 2 compensates under the build of version 3, in its old form too")
{
    auto const kit = make_rentals<3, 3>();
    auto const key = kit->start(rental_version<2>::plan, rental_2{"1", "poor", "", "gift"}, {.key = "k"});
    kit->run_to_the_end();
    CHECK(kit->saga_is(key, "compensated"));
    CHECK(kit->ask("bank", "SELECT step || ' ' || who || ' ' || note FROM did WHERE step LIKE 'undo%'") ==
          rows{"undo-insure poor gift"});
    CHECK(kit->ask("stock", "SELECT step || ' ' || who || ' ' || note FROM did WHERE step LIKE 'undo%'") ==
          rows{"undo-reserve poor gift"});
}

TEST_CASE(
    "a message from the future waits for a newer process: it is no attempt, and parked after a quarter of an hour")
{
    auto const kit = make_rentals<3, 2>();
    auto const key = kit->start(rental_version<3>::plan, rental_3{"1", "ann", "", "gift"}, {.key = "k"});
    kit->deliver_all();
    kit->advance(std::chrono::minutes{5});
    kit->deliver_all();
    auto const records = kit->records(key);
    auto const charge = std::ranges::find(records, "charge", &skald::testing::record_view::step);
    REQUIRE(charge != records.end());
    CHECK(charge->status == "retrying");
    CHECK(charge->attempts == 0);
    CHECK(charge->error ==
          "waits for a process that has it: the message is of version 3 of rent, and this process knows up to 2");
    CHECK(kit->saga_is(key, "running"));
    kit->advance(std::chrono::minutes{11});
    kit->deliver_all();
    CHECK(kit->saga_is(key, "stuck"));
    CHECK(kit->ask("bank", "SELECT reason FROM skald.parked") == rows{"unknown_step"});
}

TEST_CASE("a recording of an old version is read by the build of the new one, and delivered there")
{
    auto const kit = make_rentals<3, 3>();
    CHECK(kit->reads_recorded(recorded_1));
    kit->start(rental_version<1>::plan, rental_1{"k", "ann", ""}, {.key = "k"});
    CHECK(kit->replay_recorded(recorded_1) == 1);
    kit->run_to_the_end();
    CHECK(kit->ask("stock", handed_over) == rows{"ann: reserve charge "});
}

TEST_CASE("data as version 1 and 2 sent it runs through every schedule of the build of version 3")
{
    auto const kit = make_rentals<3, 3>();
    auto const proofs = kit->prove_recorded(began_with_1 + recorded_1 + '\n' + began_with_2, quickly);
    REQUIRE(proofs.size() == 2);  // recorded_1 begins none
    CHECK(proofs[0]);
    CHECK(proofs[1]);
    CHECK(proofs[0].schedules() < proofs[1].schedules());  // insure is in the plan of version 2 alone
    CHECK_THROWS_WITH_AS(kit->prove_recorded(recorded_1), doctest::Contains("none begins a saga"), skald::data_error);
}

TEST_CASE("a recorded delivery whose beginning can't be read, or is kept elsewhere, is told by its id")
{
    auto const kit = make_rentals<3, 3>();
    auto const refused = [&](std::string const& part, std::string const& instead, char const* why) {
        auto lines = began_with_1;
        lines.replace(lines.find(part), part.size(), instead);
        CHECK_THROWS_WITH_AS(kit->prove_recorded(lines + began_with_2), doctest::Contains(why), skald::data_error);
    };
    refused("x-saga-itinerary", "x-saga-itinerery", "the recorded delivery k:reserve can't be read: header ");
    refused(R"("headers":{)", R"("headers":{"skald-body":"sha256:00",)",
            "the recorded delivery k:reserve begins a saga whose data is kept elsewhere");
}

TEST_CASE("a proof names the members of older data that an upcast loses, except for those that are named")
{
    skald::testing::harness kit;
    kit.add(forgetful_service("stock")).add(forgetful_service("bank"));
    auto const said = kit.prove_recorded(began_with_2, quickly).front();
    CHECK_FALSE(said);
    CHECK_MESSAGE(is_in(said.report(), "an upcast loses what data of version 2 has: /note\n"), said.report());
    CHECK(is_in(said.cause(), "{.dropped = {\"/note\"}}"));
    CHECK(kit.prove_recorded(began_with_2, {.quick = true, .remains = written_down, .dropped = {"/note"}}).front());
    CHECK_FALSE(kit.prove_exactly_once(rental_version<2>::plan, rental_2{"1", "ann", "", "gift"}, quickly));
    CHECK(kit.prove_exactly_once(rental_version<2>::plan, rental_2{"1", "ann", "", {}}, quickly));
}

namespace {

enum class parcel_state { fresh, sent };
NLOHMANN_JSON_SERIALIZE_ENUM(parcel_state, {{parcel_state::fresh, "fresh"}, {parcel_state::sent, "sent"}})

struct parcel_1
{
    std::string id, note;
    parcel_state state{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(parcel_1, id, note, state)

struct parcel_2
{
    std::string id, note;
    parcel_state condition{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(parcel_2, id, note, condition)

class handing_out final : public pivot_step<parcel_2>
{
    outcome execute(step_context&, parcel_2&) const override { return done(); }
};

}  // namespace

TEST_CASE("an upcast that carries an enum over under another name is not accused of losing it, whichever value it has")
{
    static constexpr pivot<parcel_1> was{"hand-out", "stock"};
    static constexpr pivot<parcel_2> is{"hand-out", "stock"};
    static constexpr auto older = define("parcels", was);
    static constexpr auto newer = define("parcels", is).versioned(2, upcast<parcel_1, parcel_2>([](parcel_1 const& p) {
                                                                      return parcel_2{p.id, p.note, p.state};
                                                                  }));
    service s{"stock"};
    s.host(newer, is, handing_out{});
    skald::testing::harness kit;
    kit.add(std::move(s));
    for (auto const state : {parcel_state::fresh, parcel_state::sent}) {
        auto const said = kit.prove_exactly_once(older, parcel_1{"1", "gift", state}, {.quick = true});
        INFO(said.report());
        CHECK(said);
    }
}

TEST_CASE("a recording that the new build can't read says which delivery, and why; one of a step that is gone, too")
{
    auto const kit = make_rentals<3, 3>();
    std::string without{recorded_1};
    without.replace(without.find(R"(\"ann\")"), 7, "7");
    auto const said = kit->reads_recorded(without);
    CHECK_FALSE(said);
    CHECK(is_in(said.text(), "k:hand-over: the body does not fit the type of its version"));
    std::string gone{recorded_1};
    for (auto at = gone.find("hand-over"); at != std::string::npos; at = gone.find("hand-over", at + 1))
        gone.replace(at, 9, "polishing");
    CHECK(is_in(kit->reads_recorded(gone).text(), "service stock hosts no step polishing of rent"));
}
