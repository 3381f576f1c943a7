#include "audit/comparison.hpp"

#include "audit/decimal.hpp"
#include "core/shell_word.hpp"
#include "skald_audit_queries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

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
    auto text = fmt::format("skald saga {} {}", verb, core::shell_word(saga_of(one, rules)));
    if (!word.empty()) text += ' ' + word;
    if (one.known && !one.known->scope.empty()) text += " --scope " + core::shell_word(one.known->scope);
    return text;
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

finding missing_there(met const& one, comparison_rules const& rules)
{
    auto made = about(one, rules, "missing_there");
    made.means = "we have it, and the other side does not" + as_recorded(one, rules);
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

finding still_unknown(met const& one, comparison_rules const& rules)
{
    auto made = about(one, rules, "still_unknown");
    // What began before the period may be over there all the same, outside of what was printed.
    bool const is_told = one.there > 0 || one.known->began_within;
    made.means = fmt::format("{} is {} at {}, and the other side {}: neither is wrong yet", rules.step,
                             one.known->status, rules.service,
                             one.there > 0 ? "has it"
                             : is_told     ? "has nothing of it"
                                           : "was not asked about that time");
    made.why = "the saga waits until it is known whether it happened";
    // That the other side has nothing of it is no proof that nothing will happen: its call may be running.
    if (one.known->status == "started" && one.there > 0)
        made.command = command_for(one, rules, "resolve", rules.step + " happened --result JSON --reason WHY");
    else if (one.known->status == "started" && is_told)
        made.command = "skald started list --key " + core::shell_word(saga_of(one, rules));
    else if (one.known->status == "parked") made.command = command_for(one, rules, "retry");
    return made;
}

void add_twice(met const& one, comparison_rules const& rules, findings& found)
{
    if (one.there > 1) {
        auto made = about(one, rules, "twice_there");
        made.means = fmt::format("the other side has it {} times", one.there);
        made.why = "a customer may have paid more than once: undo all but one over there";
        found.add(std::move(made));
    }
    if (one.here > 1) {
        auto made = about(one, rules, "twice_here");
        made.means = fmt::format("our query has it {} times", one.here);
        made.why = "either it happened more than once here, or the query joins too much";
        found.add(std::move(made));
    }
}

void add_different(met const& one, comparison_rules const& rules, findings& found)
{
    for (std::size_t i = 0; i < rules.compare.size(); ++i) {
        auto const &ours = one.ours.values[i], &theirs = one.theirs.values[i];
        if (ours == theirs || (rules.is_number[i] && ours && theirs && is_same_decimal(*ours, *theirs))) continue;
        auto made = about(one, rules, "different");
        made.what = rules.compare[i];
        made.means = fmt::format("{} is {} here, and {} there", rules.compare[i], shown(ours), shown(theirs));
        made.why = "one of the two is wrong: correct that one";
        made.ours = ours;
        made.theirs = theirs;
        found.add(std::move(made));
    }
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

template <class Source>
auto all_of(std::optional<Source>& source)
{
    return [&source] { return source ? source->next() : std::nullopt; };
}

}  // namespace

void judge(met const& one, comparison_rules const& rules, findings& found)
{
    add_twice(one, rules, found);
    auto const& known = one.known;
    if (known && known->status == "started") {
        if (known->is_old) found.add(still_unknown(one, rules));
        return;
    }
    bool const is_here = rules.has_rows ? one.here > 0 : known && known->is_done();
    bool const must_be_there =
        rules.has_rows ? one.within > 0 : known && known->status == "completed" && known->settles_within;
    bool const is_open = known && known->is_open();
    if (one.there > 0 && !is_here) found.add(is_open ? still_unknown(one, rules) : missing_here(one, rules));
    else if (one.there == 0 && must_be_there)
        found.add(is_open ? still_unknown(one, rules) : missing_there(one, rules));
    else if (one.there > 0 && one.here > 0) add_different(one, rules, found);
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
        for (; auto entry = there_next.take(*least); ++one.there) one.theirs = std::move(*entry);
        for (; within_next.take(*least); ++one.within) {}
        for (; auto entry = here_next.take(*least); ++one.here) one.ours = std::move(*entry);
        // Scopes may share a key, and the other side does not know them: what is still open counts.
        while (auto record = record_next.take(*least))
            if (!one.known || record->second.is_open()) one.known = std::move(record->second);
        counted.ours += rules.has_rows ? one.within : one.known && one.known->settles_within && one.known->is_done();
        judge(one, rules, found);
    }
    c.run(std::string{queries::audit_end});
    return counted;
}

}  // namespace skald::audit
