#include "testing/causes.hpp"

#include <algorithm>
#include <regex>

namespace skald::testing::inner {
namespace {

// As one sentence: "it may be that a, or that b".
std::string it_may_be(std::vector<std::string> const& reasons)
{
    std::string text;
    for (auto const& one : reasons) text.append(text.empty() ? "it may be that " : ", or that ").append(one);
    return text;
}

bool has_run(part_runs const& runs, std::string const& part)
{
    return std::ranges::any_of(runs, [&](auto const& one) { return one.second > 0 && one.first.ends_with(part); });
}

bool has_undone(part_runs const& runs)
{
    return std::ranges::any_of(runs,
                               [](auto const& one) { return one.first.find(".compensate") != std::string::npos; });
}

std::size_t count(std::string const& text, std::string_view what)
{
    std::size_t n = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
}

constexpr auto own_way =
    "something is written outside of the transaction of a step, on a connection of its own or by a "
    "thread that goes on after the step has returned";
constexpr auto not_abandoned = "abandon() does not undo all that prepare() or begin() did";

std::string said_by(unfinished_step const& one, part_runs const& runs)
{
    auto const& step = one.step;
    if (one.status == "parked") {
        if (step.find(".compensate") != std::string::npos) {
            return "the compensation " + step +
                   " was given up, and the saga is stuck half undone until somebody helps. A compensation has to "
                   "succeed in the end, whatever it meets: mend what it says above";
        }
        return "the step " + step +
               " was given up, and the saga is stuck: past its pivot nothing takes it back. Mend what it says above, "
               "or "
               "give the proof rows with which it can be done (given())";
    }
    if (one.status == "unknown")
        return "look() of " + step +
               " could not tell what its call has done, and nobody dares to call again. It has to find the call by "
               "ctx.key(), "
               "and to say happened(), or did_not_happen() where that is final. If the other system can't always tell: "
               "{.may_end_unknown = true}";
    if (one.status != "rejected") return {};
    if (runs.contains(step + ".settle")) {
        return "settle() of " + step +
               " rejected what its call had done. That undoes what prepare() did, by abandon(), and the steps before; "
               "what the call did in the other system stays, since no compensation of " +
               step +
               " runs. settle() may reject only where nothing is to be undone there, as for a card that was declined: "
               "else let it complete, and a later step reject. Or give the proof data with which it does not reject";
    }
    if (runs.contains(step + ".timed_out"))
        return step + " got no signal, and timed_out() rejected. Give it one: {.signals = {{\"" + step +
               "\", R\"({...})\"}}}";
    return "the step " + step +
           " rejected, or failed on its last attempt, and the saga went back. Give the proof data and rows (given()) "
           "with which the step completes, or mend what it says above";
}

}  // namespace

std::string why_runs_differ(std::string const& difference)
{
    static std::regex const time{R"(\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d)"};
    static std::regex const random{R"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"};
    std::vector<std::string> reasons{
        "the effect of a step depends on something that the process remembers from run to run (a counter, a cache)",
        "it depends on the time at which it runs (now(), a clock)", "it depends on chance (a random id)", own_way};
    if (std::regex_search(difference, time)) std::swap(reasons[0], reasons[1]);
    if (std::regex_search(difference, random)) std::swap(reasons[0], reasons[2]);
    return it_may_be(reasons) +
           ". A second attempt would then not do what the first one did. Take it from the saga's data, and write it in "
           "the step's transaction; or name the effects so that it is left out where it does no harm";
}

std::string why_not_every_time()
{
    return it_may_be(
        {"the effect of a step depends on the time, on chance, or on what the process remembers", own_way});
}

std::string why_disturbed()
{
    return "no step was seen to do anything outside its transaction while it ran. " +
           it_may_be({"the effect of a step depends on the attempt, on the time, on chance, or on what the process "
                      "remembers",
                      own_way}) +
           "; see what differs";
}

std::string why_not_restored(part_runs const& runs, bool is_in_tables, bool is_outside)
{
    std::string text;
    bool const is_abandoned = has_run(runs, ".abandon");
    if (!has_undone(runs) && !is_abandoned) {
        text = "no compensation ran, nor had any step completed: what a step writes before it rejects, fails or is "
               "cancelled is rolled back. So this was done outside of its transaction: on a connection of its own, in "
               "another system, or by a thread that goes on after the step has returned";
    }
    else {
        std::vector<std::string> reasons;
        if (has_undone(runs)) reasons.emplace_back("the compensations do not undo all that their steps did");
        if (is_abandoned) reasons.emplace_back(not_abandoned);
        reasons.emplace_back(own_way);
        text = it_may_be(reasons);
    }
    if (is_in_tables)
        text += ". What is meant to stay, such as a cancelled order or a time, is named: {.remains = {{\"service\", "
                "\"table\"}, {\"service\", \"table\", {\"column\"}}}}";
    if (is_outside)
        text += ". If the other system keeps what was done as well as what undid it, tell watch() what has to be as "
                "before, such as a balance: {name, read, clear, restored}; with [] { return skald::testing::rows{}; } "
                "for "
                "what nobody takes back, such as a mail";
    return text;
}

std::string why_unlike(way const& along, part_runs const& runs, std::string const& difference)
{
    std::vector<std::string> reasons;
    if (has_run(runs, ".abandon")) reasons.emplace_back(not_abandoned);
    reasons.emplace_back("something of an attempt that was rolled back remains: " + std::string{own_way});
    if (along.faults == 1) {
        reasons.emplace_back("the step does something else in its second attempt: it stores ctx.attempt(), or depends "
                             "on the time, on chance, or on what the process remembers");
        // What remains is there besides what should be, and not in place of it.
        if (count(difference, "\n    + ") <= count(difference, "\n    - ")) std::swap(reasons.front(), reasons.back());
    }
    return it_may_be(reasons) + "; see what differs";
}

std::string why_wrong_end(part_runs const& runs, std::vector<unfinished_step> const& steps)
{
    for (auto const* const status : {"parked", "unknown", "rejected"})
        for (auto const& one : steps)
            if (auto text = one.status == status ? said_by(one, runs) : std::string{}; !text.empty()) return text;
    return "the saga has to come to its end by itself, with the data, the rows and the signals that the proof was "
           "given: give what is missing there, or mend what is told above";
}

}  // namespace skald::testing::inner
