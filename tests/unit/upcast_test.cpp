// Data of older versions as a step reads it, and what goes on of it.
#include "core/fingerprint.hpp"
#include "runtime/upcasting.hpp"

#include <skald/errors.hpp>
#include <skald/skald.hpp>

#include <doctest/doctest.h>

#include <optional>
#include <string>

using namespace skald;

namespace {

struct order_1
{
    std::string id, customer;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_1, id, customer)

struct order_2
{
    std::string id, customer;
    std::optional<std::string> note;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(order_2, id, customer, note)

struct order_3
{
    std::string id, buyer;
    std::optional<std::string> note;
    std::int64_t cents{};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(order_3, id, buyer, note, cents)

struct strict_order
{
    std::string id, name;
    std::optional<std::string> note;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(strict_order, id, name, note)

constexpr compensatable<order_3> charge{"charge", "payments"};
constexpr compensatable<order_3> check_stock{"check-stock", "payments"};
constexpr pivot<order_3> ship{"ship", "shipping"};

constexpr auto place_order = define("place-order", charge, ship)
                                 .versioned(2, upcast<order_1, order_2>([](order_1 const& old) {
                                                return order_2{old.id, old.customer, "v1"};
                                            }))
                                 .versioned(4, upcast<order_2, order_3>([](order_2 const& old) {
                                                return order_3{old.id, old.customer, old.note, 0};
                                            }))
                                 .versioned(5)
                                 .retired(check_stock);

class charging final : public compensatable_step<order_3>
{
    outcome execute(step_context&, order_3&) const override { return done(); }
    void compensate(step_context&, order_3&) const override {}
};

// A step of version 5, and a message of `version`.
struct at_version
{
    explicit at_version(int version)
    {
        hosted.step = std::make_shared<detail::typed_step<order_3, charging>>(charging{});
        hosted.version = place_order.version;
        hosted.upcasts.assign(place_order.upcasts.begin(), place_order.upcasts.end());
        m.hosted = &hosted;
        m.envelope.version = version;
    }

    order_3 read(std::string const& body) const
    {
        auto const run = runtime::read_for_run(m, body);
        return *static_cast<order_3 const*>(run->object());
    }

    // What goes on when the step does `change`, with its version.
    template <class Change>
    std::pair<std::string, int> after(std::string const& body, Change change) const
    {
        auto const run = runtime::read_for_run(m, body);
        change(*const_cast<order_3*>(static_cast<order_3 const*>(run->object())));
        auto data = run->data();
        auto const version = runtime::write_back(m, body, data);
        return {data, version};
    }

    runtime::registered_step hosted{};
    runtime::step_message m{};
};

constexpr auto first_body = R"({"customer":"bob", "id":"o-1","weight":1.50})";

}  // namespace

TEST_CASE("upcasts are a chain: each version's data goes through those that came after it")
{
    auto const from_1 = at_version{1}.read(first_body);
    CHECK(from_1.buyer == "bob");
    CHECK(from_1.note == "v1");
    auto const from_3 = at_version{3}.read(R"({"id":"o-1","customer":"bob","note":"gift"})");
    CHECK(from_3.buyer == "bob");
    CHECK(from_3.note == "gift");
    CHECK_FALSE(at_version{2}.read(R"({"id":"o-1","customer":"bob"})").note);
    CHECK(at_version{4}.read(R"({"id":"o-1","buyer":"eve"})").buyer == "eve");
    CHECK(at_version{5}.read(R"({"id":"o-1","buyer":"eve","note":null})").buyer == "eve");
}

TEST_CASE("members that no version knows pass through an upcast byte for byte, and what it renames is gone")
{
    CHECK(runtime::upcast(at_version{1}.m, first_body) ==
          R"({"id":"o-1","weight":1.50,"note":"v1","buyer":"bob","cents":0})");
    CHECK_FALSE(runtime::upcast(at_version{4}.m, first_body));
}

TEST_CASE("what the old type says by default goes to a new one that requires it, and unknown members with it")
{
    using required = upcasting<order_2, strict_order, decltype([](order_2 const& old) {
                                   return strict_order{old.id, old.note.value_or("none"), old.note};
                               })>;
    CHECK(required::apply(R"({"id":"o-1","customer":"bob","weight":1.50})") ==
          R"({"id":"o-1","weight":1.50,"name":"none","note":null})");
}

TEST_CASE("older data that its own version's type can't read is refused, and says which type")
{
    CHECK_THROWS_WITH_AS(at_version{1}.read(R"({"id":"o-1"})"),
                         doctest::Contains("does not fit the type of its version"), data_error);
    CHECK_THROWS_AS(at_version{1}.read("[]"), data_error);
    CHECK_THROWS_AS(at_version{1}.read("{"), data_error);
}

TEST_CASE("a step that changes nothing sends on exactly what it received, of the version that it was")
{
    for (int const version : {1, 2, 3, 4, 5}) {
        CAPTURE(version);
        auto const* const body = version < 4 ? first_body : R"({"id":"o-1", "buyer":"bob","weight":1.50})";
        CHECK(at_version{version}.after(body, [](order_3&) {}) == std::pair{std::string{body}, 0});
    }
}

TEST_CASE("what an older version can say goes on in its form: its own processes can read it")
{
    auto const [body, version] = at_version{1}.after(first_body, [](order_3& o) { o.id = "o-2"; });
    CHECK(version == 0);
    CHECK(body == R"({"customer":"bob","id":"o-2","weight":1.50})");
    CHECK(at_version{1}.read(body).id == "o-2");
    CHECK(at_version{1}.read(body).buyer == "bob");
}

TEST_CASE("what only the new form can say goes on in that, with its version, and loses nothing")
{
    auto const [body, version] = at_version{1}.after(first_body, [](order_3& o) { o.buyer = "eve"; });
    CHECK(version == 4);
    CHECK(body == R"({"id":"o-1","weight":1.50,"note":"v1","buyer":"eve","cents":0})");
    auto const read = at_version{version}.read(body);
    CHECK(read.buyer == "eve");
    CHECK(read.note == "v1");
}

TEST_CASE("property: what goes on reads the same as what the step left, whatever it changed and of whichever version")
{
    for (int const version : {1, 2, 3, 4, 5})
        for (int changes = 0; changes < 16; ++changes) {
            CAPTURE(version);
            CAPTURE(changes);
            std::string const body = version == 1   ? first_body
                                     : version <= 3 ? R"({"customer":"bob","id":"o-1","note":"n","weight":1.50})"
                                                    : R"({"buyer":"bob","id":"o-1","note":"n","weight":1.50})";
            auto const change = [changes](order_3& o) {
                if ((changes & 1) != 0) o.id = "o-2";
                if ((changes & 2) != 0) o.buyer = "eve";
                if ((changes & 4) != 0) o.note.reset();
                if ((changes & 8) != 0) o.cents = 9;
            };
            auto wanted = at_version{version}.read(body);
            change(wanted);
            auto const [sent, sent_as] = at_version{version}.after(body, change);
            CHECK(nlohmann::json(at_version{sent_as == 0 ? version : sent_as}.read(sent)) == nlohmann::json(wanted));
            CHECK(nlohmann::json::parse(sent)["weight"] == 1.5);
        }
}

TEST_CASE("an optional member is null where it is nothing, and reads as nothing where it is missing")
{
    CHECK(nlohmann::json(order_2{"o", "bob", {}}).dump() == R"({"customer":"bob","id":"o","note":null})");
    auto const read = nlohmann::json::parse(R"({"id":"o","customer":"bob"})").get<order_2>();
    CHECK_FALSE(read.note);
    CHECK(nlohmann::json::parse(R"({"id":"o","customer":"bob","note":"x"})").get<order_2>().note == "x");
    CHECK_THROWS_AS(nlohmann::json::parse(R"({"id":"o","customer":"bob","note":1})").get<order_2>(),
                    nlohmann::json::exception);
}

TEST_CASE("an optional of a struct, in a list and in a map, is read and written")
{
    std::vector<std::optional<order_1>> const all{order_1{"1", "bob"}, std::nullopt};
    auto const json = nlohmann::json(all);
    CHECK(json.dump() == R"([{"customer":"bob","id":"1"},null])");
    auto const read = json.get<std::vector<std::optional<order_1>>>();
    CHECK(read.size() == 2);
    CHECK(read[0]->customer == "bob");
    CHECK_FALSE(read[1]);
    std::map<std::string, std::optional<int>> const named{{"a", 1}, {"b", {}}};
    CHECK(nlohmann::json(named).get<std::map<std::string, std::optional<int>>>() == named);
}

TEST_CASE("a definition says its version, its upcasts and its retired steps, and a later version keeps them")
{
    static_assert(place_order.version == 5);
    static_assert(place_order.upcasts.count == 2);
    static_assert(place_order.retired_steps.count == 1);
    static_assert(place_order.versioned(6).upcasts.count == 2);
    static_assert(place_order.steps.size() == 2);
    CHECK(place_order.retired_steps.begin()->name == "check-stock");
}
