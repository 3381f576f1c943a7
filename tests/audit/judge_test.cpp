// What two sides say of one key, and what follows: without a database.
#include "audit/comparison.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

using namespace skald::audit;

namespace {

comparison_rules const by_rows{"payments", true, "charge-payment", false, {"amount", "currency"}, {true, false}};
comparison_rules const by_records{"payments", false, "charge-payment", false, {}, {}};

record known(std::string status)
{
    return {"", "o-1", "orders", std::move(status), "2026-11-01T12:00:00.000000Z", true, true, true};
}

met both(std::string ours, std::string theirs)
{
    met one;
    one.key = "o-1:charge-payment";
    one.there = one.within = one.here = 1;
    one.ours = {{one.key, {std::move(ours), "EUR"}}};
    one.theirs = {{one.key, {std::move(theirs), "EUR"}}};
    return one;
}

met one_side(std::size_t there, std::size_t here, std::optional<record> record = {})
{
    auto one = both("1", "1");
    one.there = there;
    one.within = one.here = here;
    one.known = std::move(record);
    return one;
}

/// "kind: command", for each.
std::string found(met const& one, comparison_rules const& rules)
{
    findings all{10};
    judge(one, rules, all);
    std::string text;
    for (auto const& each : all.kept()) text += (text.empty() ? "" : "; ") + each.kind + ": " + each.command;
    return text;
}

}  // namespace

TEST_CASE("two sides that have the same are in order, decimals by their value and all else by its text")
{
    CHECK(found(both("19.90", "19.9"), by_rows).empty());
    findings all{10};
    auto one = both("19.90", "19.91");
    one.theirs[0].values[1] = std::nullopt;
    judge(one, by_rows, all);
    REQUIRE(all.kept().size() == 2);
    CHECK(all.kept()[0].what == "amount");
    CHECK(all.kept()[0].ours == "19.90");
    CHECK(all.kept()[0].theirs == "19.91");
    CHECK(all.kept()[1].means == "currency is EUR here, and nothing there");
    CHECK(all.kept()[1].command == "skald saga show o-1");
}

TEST_CASE("text that looks like a number is text")
{
    auto one = both("1", "1");
    one.ours[0].values[1] = "007";
    one.theirs[0].values[1] = "7";
    CHECK(found(one, by_rows) == "different: skald saga show o-1");
}

TEST_CASE("what one side lacks is named, unless it lies outside of the period")
{
    CHECK(found(one_side(0, 1), by_rows) == "missing_there: skald saga show o-1");
    CHECK(found(one_side(1, 0), by_rows) == "missing_here: skald saga show o-1");
    auto beyond = one_side(0, 1);
    beyond.within = 0;
    CHECK(found(beyond, by_rows).empty());
    beyond.there = 1;
    CHECK(found(beyond, by_rows).empty());
}

TEST_CASE("what is on one side more than once is named")
{
    CHECK(found(one_side(2, 1), by_rows) == "twice_there: skald saga show o-1");
    CHECK(found(one_side(1, 2), by_rows) == "twice_here: skald saga show o-1");
    CHECK(found(one_side(2, 0), by_rows) == "twice_there: skald saga show o-1; missing_here: skald saga show o-1");
}

TEST_CASE("of what is there twice each is compared, in whatever order")
{
    for (bool const is_first : {false, true}) {
        auto one = both("1", "1");
        one.there = 2;
        one.theirs.insert(is_first ? one.theirs.begin() : one.theirs.end(), {one.key, {"2", "EUR"}});
        findings all{10};
        judge(one, by_rows, all);
        CHECK(all.counts() == std::map<std::string, std::size_t>{{"different", 1}, {"twice_there", 1}});
        CHECK(all.kept().back().theirs == "2");
    }
}

TEST_CASE("a call that began or was settled outside of the period may be on either side alone")
{
    auto late = known("completed");
    late.settles_within = false;
    CHECK(found(one_side(1, 0, late), by_rows).empty());
    CHECK(found(one_side(0, 1, late), by_rows).empty());
    CHECK(found(one_side(1, 1, late), by_rows).empty());
    CHECK(found(one_side(1, 0, known("completed")), by_rows) == "missing_here: skald saga show o-1");
    CHECK(found(one_side(0, 1, known("completed")), by_rows) == "missing_there: skald saga show o-1");
}

TEST_CASE("what the guard says is completed and neither list has is missing")
{
    findings all{10};
    judge(one_side(0, 0, known("completed")), by_rows, all);
    REQUIRE(all.total() == 1);
    CHECK(all.kept()[0].kind == "missing_there");
    CHECK(all.kept()[0].means ==
          "neither our query nor the other side has it; payments recorded charge-payment as completed");
    CHECK(found(one_side(0, 0, known("rejected")), by_rows).empty());
}

TEST_CASE("what is being undone may be on the other side or not")
{
    CHECK(found(one_side(0, 0, known("compensating")), by_records).empty());
    CHECK(found(one_side(1, 0, known("compensating")), by_records).empty());
    CHECK(found(one_side(0, 1, known("compensating")), by_rows) == "still_unknown: skald saga show o-1");
    CHECK(found(one_side(1, 1, known("compensating")), by_rows).empty());
}

TEST_CASE("scopes that share a key have it as often as they are")
{
    auto const shared = [](std::size_t there, std::string first, std::string second) {
        auto one = one_side(there, 0, known(std::move(first)));
        one.others.push_back(known(std::move(second)));
        one.others[0].scope = "other";
        return found(one, by_records);
    };
    CHECK(shared(2, "completed", "completed").empty());
    CHECK(shared(1, "completed", "completed") == "missing_there: skald saga show o-1");
    CHECK(shared(3, "completed", "completed") == "twice_there: skald saga show o-1");
    CHECK(shared(1, "completed", "rejected").empty());
    CHECK(shared(2, "completed", "rejected") == "twice_there: skald saga show o-1");
    // That the other side has one says nothing about the call in doubt.
    CHECK(shared(1, "started", "completed") == "still_unknown: skald started list --key o-1");
    CHECK(shared(0, "started", "completed") ==
          "still_unknown: skald started list --key o-1; missing_there: skald saga show o-1 --scope other");
    CHECK(shared(2, "started", "completed") ==
          "still_unknown: skald saga resolve o-1 charge-payment happened --result JSON --reason WHY");
}

TEST_CASE("a finding names the database in which its command works")
{
    auto const service_of = [](met const& one) {
        findings all{10};
        judge(one, by_records, all);
        return all.kept().at(0).service;
    };
    CHECK(service_of(one_side(1, 0, known("started"))) == "payments");
    CHECK(service_of(one_side(0, 0, known("started"))) == "payments");
    CHECK(service_of(one_side(1, 0, known("parked"))) == "orders");
    CHECK(service_of(one_side(0, 0, known("completed"))) == "orders");
}

TEST_CASE("of what is still unknown neither side is said to be wrong")
{
    for (auto const& rules : {by_rows, by_records}) {
        CHECK(found(one_side(1, 0, known("started")), rules) ==
              "still_unknown: skald saga resolve o-1 charge-payment happened --result JSON --reason WHY");
        CHECK(found(one_side(0, 0, known("started")), rules) == "still_unknown: skald started list --key o-1");
        CHECK(found(one_side(1, 0, known("retrying")), rules) == "still_unknown: skald saga show o-1");
        CHECK(found(one_side(1, 0, known("parked")), rules) == "still_unknown: skald saga retry o-1");
        CHECK(found(one_side(0, 0, known("parked")), rules).empty());
    }
    CHECK(found(one_side(0, 1, known("parked")), by_rows) == "still_unknown: skald saga retry o-1");
}

TEST_CASE("a call that has just begun is under way, and of one from before the period the other side was not asked")
{
    auto young = known("started");
    young.is_old = false;
    CHECK(found(one_side(1, 0, young), by_records).empty());
    auto old = known("started");
    old.began_within = false;
    CHECK(found(one_side(0, 0, old), by_records) == "still_unknown: skald saga show o-1");
}

TEST_CASE("without rows the guard's records say what we have")
{
    CHECK(found(one_side(1, 0, known("completed")), by_records).empty());
    CHECK(found(one_side(0, 0, known("completed")), by_records) == "missing_there: skald saga show o-1");
    CHECK(found(one_side(1, 0, known("rejected")), by_records) == "missing_here: skald saga show o-1");
    CHECK(found(one_side(0, 0, known("rejected")), by_records).empty());
    // What was undone the other side may list or not.
    CHECK(found(one_side(1, 0, known("compensated")), by_records).empty());
    CHECK(found(one_side(0, 0, known("compensated")), by_records).empty());
    auto border = known("completed");
    border.settles_within = false;
    CHECK(found(one_side(0, 0, border), by_records).empty());
}

TEST_CASE("a command can be pasted into a shell, whatever the key is")
{
    auto one = one_side(0, 1, known("completed"));
    one.known->scope = "tenant 1";
    one.known->key = "it's; rm";
    CHECK(found(one, by_rows) == R"(missing_there: skald saga show 'it'\''s; rm' --scope 'tenant 1')");
}
