#include "audit/comparison.hpp"

#include "audit/decimal.hpp"
#include "core/shell_word.hpp"
#include "skald_audit_queries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace skald::audit {
namespace {

std::string shown(std::optional<std::string> const& value)
{
    return value ? *value : "nothing";
}

// The saga of a key that the guard has no record of, as far as the key tells.
std::string saga_of(met const& one, comparison_rules const& rules)
{
    if (one.known) return one.known->key;
    auto const end = ':' + rules.step;
    if (rules.by_saga || rules.step.empty() || !one.key.ends_with(end)) return one.key;
    return one.key.substr(0, one.key.size() - end.size());
}

std::string command_for(met const& one, comparison_rules const& rules, std::string const& verb,
                        std::string const& word = {})
{
    return core::saga_command(verb, {one.known ? one.known->scope : "", saga_of(one, rules)}, word);
}

finding about(met const& one, comparison_rules const& rules, std::string kind)
{
    finding made;
    made.kind = std::move(kind);
    made.service = one.known ? one.known->home : rules.service;
    made.scope = one.known ? one.known->scope : "";
    made.key = one.key;
    made.what = rules.step;
    made.since = one.known ? one.known->at : "";
    made.command = command_for(one, rules, "show");
    return made;
}

std::string as_recorded(met const& one, comparison_rules const& rules)
{
    if (rules.step.empty()) return {};
    if (!one.known) return fmt::format("; {} has no record of {}", rules.service, rules.step);
    return fmt::format("; {} recorded {} as {}", rules.service, rules.step, one.known->status);
}

/// Of the guard's records under one key: of several scopes if there are several.
struct tally
{
    std::size_t possible{};  // those that may be on the other side
    std::size_t done{}, settled{}, spanning{};
    record const* first_settled{};

    explicit tally(met const& one)
    {
        if (one.known) add(*one.known);
        for (auto const& other : one.others) add(other);
    }

private:
    void add(record const& one)
    {
        possible += one.is_done() || one.is_open();
        done += one.is_done();
        spanning += one.is_done() && !one.settles_within;
        if (!one.is_settled()) return;
        ++settled;
        if (first_settled == nullptr) first_settled = &one;
    }
};

finding missing_there(met one, comparison_rules const& rules, tally const& records)
{
    if (records.first_settled != nullptr) one.known = record{*records.first_settled};
    auto made = about(one, rules, "missing_there");
    if (records.settled > 1)
        made.means = fmt::format("we have it {} times, in scopes that share the key, and the other side {} times",
                                 records.settled, one.there);
    else if (rules.has_rows && one.here == 0) made.means = "neither our query nor the other side has it";
    else made.means = "we have it, and the other side does not";
    made.means += as_recorded(one, rules);
    made.why = "what was promised may never have been paid, booked or sent over there";
    return made;
}

finding missing_here(met const& one, comparison_rules const& rules)
{
    auto made = about(one, rules, "missing_here");
    made.means = "the other side has it, and we do not" + as_recorded(one, rules);
    made.why = "somebody may have paid for nothing: undo it over there, or find out who asked for it";
    return made;
}

finding still_unknown(met const& one, comparison_rules const& rules, tally const& records)
{
    auto made = about(one, rules, "still_unknown");
    bool const has_it = one.there > records.done - (one.known->is_done() ? 1 : 0);
    // What began before the period may be over there all the same, outside of what was printed.
    bool const is_told = has_it || one.known->began_within;
    made.means = fmt::format("{} is {} at {}, and the other side {}: neither is wrong yet", rules.step,
                             one.known->status, rules.service,
                             has_it    ? "has it"
                             : is_told ? "has nothing of it"
                                       : "was not asked about that time");
    made.why = "the saga waits until it is known whether it happened";
    if (one.known->status == "parked") made.command = command_for(one, rules, "retry");
    if (one.known->status != "started" || !is_told) return made;
    made.service = rules.service;
    // That the other side has nothing of it is no proof that nothing will happen: its call may be running.
    made.command = has_it ? command_for(one, rules, "resolve", rules.step + " happened --result JSON --reason WHY")
                          : "skald started list --key " + core::shell_word(saga_of(one, rules));
    return made;
}

void add_twice(met const& one, comparison_rules const& rules, tally const& records, findings& found)
{
    auto const allowed = std::max<std::size_t>(1, records.possible);
    if (one.there > allowed) {
        auto made = about(one, rules, "twice_there");
        made.means = fmt::format("the other side has it {} times", one.there);
        made.why = "a customer may have paid more than once: undo over there what is too much";
        found.add(std::move(made));
    }
    if (one.here > allowed) {
        auto made = about(one, rules, "twice_here");
        made.means = fmt::format("our query has it {} times", one.here);
        made.why = "either it happened more than once here, or the query joins too much";
        found.add(std::move(made));
    }
}

bool is_same(entry const& ours, entry const& theirs, comparison_rules const& rules, std::size_t member)
{
    auto const &here = ours.values[member], &there = theirs.values[member];
    return here == there || (rules.is_number[member] && here && there && is_same_decimal(*here, *there));
}

void add_different(met const& one, entry const& ours, entry const& theirs, comparison_rules const& rules,
                   findings& found)
{
    for (std::size_t i = 0; i < rules.compare.size(); ++i) {
        if (is_same(ours, theirs, rules, i)) continue;
        auto made = about(one, rules, "different");
        made.what = rules.compare[i];
        made.ours = ours.values[i];
        made.theirs = theirs.values[i];
        made.means = fmt::format("{} is {} here, and {} there", made.what, shown(made.ours), shown(made.theirs));
        made.why = "one of the two is wrong: correct that one";
        found.add(std::move(made));
    }
}

// What a side has twice may differ from itself: each is to be equal to one of the other side.
void add_different(met const& one, comparison_rules const& rules, findings& found)
{
    auto const are_same = [&](entry const& ours, entry const& theirs) {
        for (std::size_t i = 0; i < rules.compare.size(); ++i)
            if (!is_same(ours, theirs, rules, i)) return false;
        return true;
    };
    std::vector<entry const*> ours, theirs;
    for (auto const& here : one.ours)
        if (std::ranges::none_of(one.theirs, [&](auto const& there) { return are_same(here, there); }))
            ours.push_back(&here);
    for (auto const& there : one.theirs)
        if (std::ranges::none_of(one.ours, [&](auto const& here) { return are_same(here, there); }))
            theirs.push_back(&there);
    for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i)
        add_different(one, i < ours.size() ? *ours[i] : one.ours.front(),
                      i < theirs.size() ? *theirs[i] : one.theirs.front(), rules, found);
}

/// The next of several in the order of their keys.
template <class Value>
class head
{
public:
    explicit head(std::function<std::optional<Value>()> next) : next_{std::move(next)}, value_{next_()} {}

    std::optional<Value> const& value() const { return value_; }

    /// What it had, if that is about this key.
    std::optional<Value> take(std::string const& key)
    {
        if (!value_ || key_of(*value_) != key) return std::nullopt;
        return std::exchange(value_, next_());
    }

    void lower(std::optional<std::string>& least) const
    {
        if (value_ && (!least || key_of(*value_) < *least)) least = key_of(*value_);
    }

private:
    static std::string const& key_of(entry const& one) { return one.key; }
    static std::string const& key_of(std::pair<std::string, record> const& one) { return one.first; }

    std::function<std::optional<Value>()> next_;
    std::optional<Value> value_;
};

// Those that differ from each other: enough of them to see what is wrong.
void keep(std::vector<entry>& kept, entry one)
{
    constexpr std::size_t kept_max = 8;
    if (kept.size() < kept_max && std::ranges::find(kept, one) == kept.end()) kept.push_back(std::move(one));
}

// Scopes may share a key, and the other side does not know them: what is still open is the one to look at first.
void keep(met& one, std::vector<record> records)
{
    auto const urgency = [](record const& each) {
        return each.status == "started" ? 3 : each.is_open() ? 2 : each.is_done() ? 1 : 0;
    };
    std::ranges::stable_sort(records, std::greater{}, urgency);
    for (auto& each : records) {
        if (one.known) one.others.push_back(std::move(each));
        else one.known = std::move(each);
    }
}

template <class Source>
auto all_of(std::optional<Source>& source)
{
    return [&source] { return source ? source->next() : std::nullopt; };
}

}  // namespace

void judge(met const& one, comparison_rules const& rules, findings& found)
{
    tally const records{one};
    add_twice(one, rules, records, found);
    auto const& known = one.known;
    bool const is_open = known && known->is_open();
    // What began or was settled outside of the period may have a time within it on either side, and not on the other.
    bool const spans = records.spanning > 0;
    bool const is_here = rules.has_rows ? one.here > 0 || spans : records.done > 0;
    auto const wanted = std::max<std::size_t>(records.settled, rules.has_rows && one.within > 0 && !spans ? 1 : 0);
    if (known && known->status == "started") {
        if (known->is_old) found.add(still_unknown(one, rules, records));
        if (one.there < records.settled) found.add(missing_there(one, rules, records));
        return;
    }
    if (one.there > 0 && !is_here) found.add(is_open ? still_unknown(one, rules, records) : missing_here(one, rules));
    else if (one.there < wanted)
        found.add(is_open && records.settled == 0 ? still_unknown(one, rules, records)
                                                  : missing_there(one, rules, records));
    if (one.there > 0 && one.here > 0) add_different(one, rules, found);
}

compared compare(postgres::connection& c, sorted_entries& theirs, ours_options const& options, period const& over,
                 std::string const& service, findings& found)
{
    c.run(std::string{queries::audit_begin});
    std::optional<our_rows> within, here;
    std::optional<our_records> records;
    if (!options.query.empty()) {
        within.emplace(c, options, "audit_within", over);
        here.emplace(c, options, "audit_here", over.widened(2));
    }
    if (!options.step.empty()) records.emplace(c, options, over);

    head<entry> there_next{[&] { return theirs.next(); }};
    head<entry> within_next{all_of(within)}, here_next{all_of(here)};
    head<std::pair<std::string, record>> record_next{all_of(records)};
    comparison_rules rules{service, !options.query.empty(), options.step, options.by_saga, options.compare, {}};
    if (here) rules.is_number = here->is_number();
    compared counted{theirs.count(), 0};
    for (;;) {
        std::optional<std::string> least;
        there_next.lower(least);
        within_next.lower(least);
        here_next.lower(least);
        record_next.lower(least);
        if (!least) break;
        met one;
        one.key = *least;
        for (; auto entry = there_next.take(*least); ++one.there) keep(one.theirs, std::move(*entry));
        for (; within_next.take(*least); ++one.within) {}
        for (; auto entry = here_next.take(*least); ++one.here) keep(one.ours, std::move(*entry));
        std::ranges::sort(one.theirs, {}, &entry::values);
        std::ranges::sort(one.ours, {}, &entry::values);
        std::vector<record> known;
        while (auto record = record_next.take(*least)) known.push_back(std::move(record->second));
        counted.ours +=
            rules.has_rows ? one.within : static_cast<std::size_t>(std::ranges::count_if(known, [](auto const& each) {
                return each.settles_within && each.is_done();
            }));
        keep(one, std::move(known));
        judge(one, rules, found);
    }
    c.run(std::string{queries::audit_end});
    return counted;
}

}  // namespace skald::audit
