#include "conform/plan.hpp"

#include "core/identity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <random>
#include <string_view>
#include <utility>

namespace skald::conform {
namespace {

using nlohmann::json;

constexpr int attempts = 3;  // of each step

/// How a saga of a kind goes, in its data.
struct kind
{
    char const* what;
    char const* rejects_at = "";
    char const* fails_at = "";
    int fails = 0;
    char const* waits_at = "";
    bool is_cancelled = false;
    bool comes_backwards = false;
    bool is_dead_lettered = false;
};

constexpr std::array kinds{
    kind{"a plain saga"},
    kind{"a saga that charge rejects", "charge"},
    kind{"a saga that ship rejects", "ship"},
    kind{"a saga with a fault in charge", "", "charge", 1},
    kind{"a saga with two faults in ship", "", "ship", 2},
    kind{"a saga with a fault in pay-out", "", "pay-out", 1},
    kind{"a saga with a fault in its compensation", "ship", "charge.compensate", 1},
    kind{"a saga whose compensation fails each time", "ship", "charge.compensate", attempts},
    kind{"a saga whose charge fails each time", "", "charge", attempts},
    kind{"a saga whose ship fails each time", "", "ship", attempts},
    kind{"a saga whose pay-out fails each time", "", "pay-out", attempts},
    kind{"a saga that is cancelled before charge", "", "", 0, "", true},
    kind{"a saga whose compensation comes first", "", "", 0, "", false, true},
    kind{"a saga whose charge is in the parked queue, and not by the delivery limit", "", "", 0, "", false, false,
         true},
};
constexpr std::array waiting{
    kind{"a saga that waits in pay-out", "", "", 0, "pay-out"},
    kind{"a saga that waits in charge", "", "", 0, "charge"},
    kind{"a saga that waits in ship", "", "", 0, "ship"},
};
constexpr std::array steps{"charge", "ship", "pay-out", "charge.compensate"};
// Three and four steps: each with each within twelve.
constexpr std::array kills_in_turn{trouble::kill_lost_commit, trouble::kill_kept_commit, trouble::kill_in_step};
constexpr std::array cuts{trouble::cut_in_step, trouble::cut_in_commit};
constexpr std::array refusals{trouble::deadlock, trouble::lock_timeout};
// Killed where that is written: by the step that it comes to.
constexpr std::array bad_ends{std::pair{"ship", kind{"a saga that ship rejects", "ship"}},
                              std::pair{"charge", kind{"a saga with a fault in charge", "", "charge", 1}},
                              std::pair{"charge", kind{"a saga that waits in charge", "", "", 0, "charge"}}};
static_assert(kills_min == steps.size() * kills_in_turn.size());
constexpr int behind_a_stop = 16;
constexpr std::int64_t beyond_32_bits = 10'000'000'019;

// What a program may lose on its way through a type of its own.
constexpr std::array strange{R"("")",
                             R"("Zoë, 北京, عمّان, 😀")",
                             R"("a \"b\" \\ / \u0001 \t \u2028")",
                             R"(["",null,[],{}])",
                             R"({"":0,"ключ":{"a":[1,2.5,-3e-7]}})",
                             "9007199254740991",
                             "-9007199254740991",
                             "0.1",
                             "1.7976931348623157e308",
                             "null",
                             "false"};
constexpr std::array larger{"9007199254740993", "-9223372036854775808", "18446744073709551615"};

class saga_maker
{
public:
    saga_maker(std::string const& run, std::uint64_t seed) : run_{run}, random_{seed} {}

    saga make(kind const& of, char const* scope = "", char const* suffix = "")
    {
        saga made;
        made.name = {scope, fmt::format("{}-{}{}", run_, ++number_, suffix)};
        made.what = of.what;
        bool const marks = one_in(2);
        made.data = {{"cents", cents()},  {"rejects_at", of.rejects_at}, {"fails_at", of.fails_at},
                     {"fails", of.fails}, {"waits_at", of.waits_at},     {"marks", marks}};
        for (int n = number(1, 4); n > 0; --n) made.data[fmt::format("unknown-{}", n)] = json::parse(one_of(strange));
        if (!marks) made.data["large"] = json::parse(one_of(larger));
        made.is_cancelled = of.is_cancelled;
        made.comes_backwards = of.comes_backwards;
        made.is_dead_lettered = of.is_dead_lettered;
        made.is_numbered = one_in(4);
        expect(made);
        made.is_sent_changed = made.ends == "completed" && of.fails == 0 && !of.is_dead_lettered && one_in(3);
        return made;
    }

    /// Two with one key, in two scopes.
    void add_twins(std::vector<saga>& all)
    {
        auto first = make(kinds[0]);
        first.what = "one of two sagas with one key, in two scopes";
        auto second = first;
        second.name.first = "Zürich";
        second.data["cents"] = first.data["cents"].get<std::int64_t>() + 1;
        all.push_back(std::move(first));
        all.push_back(std::move(second));
    }

    saga make_troubled(std::string_view step, trouble what)
    {
        return make_troubled(step, what,
                             step == "charge.compensate" ? kind{"a saga that ship rejects", "ship"} : kinds[0]);
    }
    saga make_troubled(std::string_view step, trouble what, kind const& of)
    {
        auto made = make(of, "", is_kill(what) ? "-killed" : "-troubled");
        made.trouble = planned_trouble{std::string{step}, what};
        return made;
    }

    template <class Container>
    void shuffle(Container& all)
    {
        for (auto i = all.size(); i > 1; --i)
            std::swap(all[i - 1], all[static_cast<std::size_t>(number(0, static_cast<int>(i) - 1))]);
    }

private:
    // std::uniform_int_distribution differs between libraries, and a seed is to mean the same everywhere.
    int number(int low, int high)
    {
        return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1));
    }
    bool one_in(int n) { return number(1, n) == 1; }
    // Never 0, which a program may have written for another reason.
    std::int64_t cents() { return number(1, 100'000) + (one_in(4) ? beyond_32_bits : 0); }

    template <class Container>
    typename Container::const_reference one_of(Container const& all)
    {
        return all[static_cast<std::size_t>(number(0, static_cast<int>(all.size()) - 1))];
    }

    static void expect(saga& s)
    {
        auto const at = [&](char const* what, char const* step) { return s.data[what] == step; };
        auto const is_refused = [&](char const* step) {
            return at("rejects_at", step) || (at("fails_at", step) && s.data["fails"] == attempts);
        };
        s.ends = "compensated";
        if (s.is_cancelled || s.comes_backwards || is_refused("charge")) return;
        s.effects = {"charge"};
        if (is_refused("ship")) {
            if (is_refused("charge.compensate")) s.ends = "stuck";
            else s.effects.insert("charge.compensate");
            return;
        }
        s.effects.insert("ship");
        s.ends = is_refused("pay-out") ? "stuck" : "completed";
        if (s.ends == "completed") s.effects.insert("pay-out");
    }

    std::string run_;
    std::mt19937_64 random_;
    int number_{};
};

std::string itinerary(std::string const& service, std::string const& step)
{
    bool const is_back = step == "charge.compensate";
    int const place = step == "ship" ? 3 : step == "pay-out" ? 4 : 2;
    return fmt::format("{0} {1}/5 open@{2}=compensatable charge@{3}=compensatable ship@{3}=pivot pay-out@{3}=retriable "
                       "close@{2}=retriable",
                       is_back ? "back" : "forward", place, home, service);
}

}  // namespace

json saga::data_at_the_end() const
{
    auto made = data;
    if (data["marks"] == true && effects.contains("charge")) made["receipt"] = name.second;
    return made;
}

core::message saga::message(std::string const& service, std::string const& step) const
{
    core::message made;
    made.destination = service;
    made.id = name.second + ':' + step;
    made.type = step.substr(0, step.find('.'));
    made.headers = {{"x-idempotency-key", made.id},
                    {"x-saga-scope", name.first},
                    {"x-saga", "conform"},
                    {"x-saga-itinerary", itinerary(service, step)},
                    {"x-saga-home", home}};
    if (step == "charge.compensate") made.headers.emplace_back("x-saga-reason", "it came first");
    made.body = data.dump();
    return made;
}

core::message saga::cancel(std::string const& service, std::string const& id, std::string const& at) const
{
    core::message made;
    made.destination = service;
    made.id = name.second + ".control." + id;
    made.type = "skald.control";
    made.headers = {
        {"x-idempotency-key", name.second + ":charge"}, {"x-saga-scope", name.first}, {"x-saga-home", home}};
    made.body = json{{"id", id},           {"scope", name.first}, {"key", name.second},     {"home", home},
                     {"action", "cancel"}, {"by", "conform"},     {"reason", "as planned"}, {"requested_at", at}}
                    .dump();
    return made;
}

plan make_plan(std::string const& run, std::uint64_t seed, plan_size const& size)
{
    saga_maker next{run, seed};
    plan made;
    next.add_twins(made.duplicated);
    auto const waits = std::max(size.sagas / 10, static_cast<int>(waiting.size()));
    for (int n = 0; n < size.sagas - waits - 2 || n < static_cast<int>(kinds.size()); ++n)
        made.duplicated.push_back(next.make(kinds[static_cast<std::size_t>(n) % kinds.size()]));
    next.shuffle(made.duplicated);
    for (std::size_t n = 0; n < static_cast<std::size_t>(size.kills); ++n)
        made.alone.push_back(next.make_troubled(steps[n % steps.size()], kills_in_turn[n % kills_in_turn.size()]));
    for (auto const& [step, of] : bad_ends) made.alone.push_back(next.make_troubled(step, trouble::kill_in_end, of));
    for (auto const what : refusals)
        for (auto const* const step : steps) made.alone.push_back(next.make_troubled(step, what));
    next.shuffle(made.alone);
    // Last: what ends a process shortly after a cut is forgiven.
    std::vector<saga> cut;
    for (auto const what : cuts)
        for (auto const* const step : steps) cut.push_back(next.make_troubled(step, what));
    next.shuffle(cut);
    std::ranges::move(cut, std::back_inserter(made.alone));
    for (int n = 0; n < waits; ++n)
        made.alone.push_back(next.make(waiting[static_cast<std::size_t>(n) % waiting.size()], "", "-waits"));
    for (int n = 0; n < size.processes + behind_a_stop; ++n) {
        made.at_stop.push_back(next.make(kinds[0], "", "-stopped"));
        made.at_stop.back().is_at_stop = true;
    }
    for (auto* const all : {&made.alone, &made.at_stop})
        for (auto& one : *all) one.is_sent_changed = false;
    return made;
}

}  // namespace skald::conform
