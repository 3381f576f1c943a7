#include "audit/rules.hpp"

#include "core/shell_word.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace skald::audit {
namespace {

std::string saga_command(std::string_view verb, key_facts const& facts)
{
    return core::saga_command(verb, {facts.scope, facts.key});
}

std::string listing_command(std::string_view what, key_facts const& facts)
{
    return fmt::format("skald {} list --key {}", what, core::shell_word(facts.key));
}

/// The rules, applied to one key. Two databases are not read at one moment, and a standby lags: what is young on one of
/// them may not be on another yet, and is left to the next audit.
class examination
{
public:
    examination(key_facts const& facts, surroundings const& around) : facts_{facts}, around_{around} {}

    std::vector<finding> run()
    {
        for (auto const& saga : facts_.sagas) {
            if (!saga.has_ended()) examine_open(saga);
            // What its operator closed, the operator has checked; what has expired, is gone on purpose.
            else if (!facts_.closed.contains(saga.home) && !saga.expires) examine_ended(saga);
        }
        for (auto const& record : facts_.records) examine_record(record);
        for (auto const& message : facts_.messages) examine_message(message);
        for (auto const& parked : facts_.parked) examine_parked(parked);
        for (auto const& [home, step] : facts_.not_undone) {
            if (facts_.closed.contains(home)) continue;
            add("not_undone", home, step, facts_.latest,
                fmt::format("{} completed, and its compensation found no record of it", step),
                "what it did may still be in effect", saga_command("show", facts_));
        }
        return std::move(found_);
    }

private:
    bool is_given(std::string const& service) const
    {
        return std::ranges::find(around_.services, service) != around_.services.end();
    }

    finding& add(std::string kind, std::string service, std::string what, std::string since, std::string means,
                 std::string why, std::string command)
    {
        return found_.emplace_back(finding{std::move(kind), std::move(service), facts_.scope, facts_.key,
                                           std::move(what), std::move(since), std::move(means), std::move(why),
                                           std::move(command)});
    }

    // Once for each service, so it has no key.
    void add_not_examined(std::string const& service)
    {
        auto& made = add("not_examined", service, "", "",
                         fmt::format("sagas have to do with {}, whose database was not given", service),
                         "whether their steps ran there, and whether they were started there, can't be seen",
                         fmt::format("add a line {}=URL to {}", service, around_.file));
        made.scope.clear();
        made.key.clear();
    }

    record_fact const* find_record(saga_fact const& saga, std::string const& service, std::string const& step) const
    {
        for (auto const& one : facts_.records)
            if (one.service == service && one.step == step && one.is_of(saga.home)) return &one;
        return nullptr;
    }

    bool is_done(saga_fact const& saga, std::string const& service, std::string const& step) const
    {
        auto const* const record = find_record(saga, service, step);
        return record != nullptr && record->status == "completed";
    }

    void examine_ended(saga_fact const& saga)
    {
        auto const plan = core::parse_itinerary(saga.itinerary);
        if (!plan) return;
        for (auto const& step : plan->steps) {
            if (!is_given(step.service)) {
                add_not_examined(step.service);
                continue;
            }
            if (!saga.is_old) continue;
            if (saga.status == "completed") examine_step_of_completed(saga, step);
            else examine_step_of_compensated(saga, step);
        }
    }

    void examine_step_of_completed(saga_fact const& saga, core::itinerary_step const& step)
    {
        if (!is_done(saga, step.service, step.name)) {
            auto const* const record = find_record(saga, step.service, step.name);
            add("not_done", saga.home, step.name, saga.at,
                fmt::format("the saga is completed, and {} {}", step.service,
                            record == nullptr ? "has no record of " + step.name
                                              : fmt::format("recorded {} as {}", step.name, record->status)),
                "the customer was told that all is done, and this may not be", saga_command("show", facts_));
        }
        if (is_done(saga, step.service, step.name + ".compensate"))
            add("undone", saga.home, step.name, saga.at,
                fmt::format("the saga is completed, and {} undid {}", step.service, step.name),
                "the customer was told that all is done, and this was undone", saga_command("show", facts_));
    }

    void examine_step_of_compensated(saga_fact const& saga, core::itinerary_step const& step)
    {
        if (!is_done(saga, step.service, step.name) || is_done(saga, step.service, step.name + ".compensate")) return;
        auto const* const record = find_record(saga, step.service, step.name + ".compensate");
        add("not_undone", saga.home, step.name, saga.at,
            fmt::format("the saga is compensated, {} completed {}, and {}", step.service, step.name,
                        record == nullptr ? "has no record of its compensation"
                                          : "recorded its compensation as " + record->status),
            "what it did may still be in effect", saga_command("show", facts_));
    }

    // Something must move it on. A message that is at the broker no database shows: only time tells.
    void examine_open(saga_fact const& saga)
    {
        // Such a saga waits for an operator, and its state says so.
        if (saga.status == "unknown" || !facts_.busy.empty() || facts_.paused.contains(saga.home) || !facts_.is_old)
            return;
        if (depends_on_others(saga)) return;
        auto const at_the_broker = message_at_the_broker(saga);
        if (!at_the_broker) return;
        auto const& called = saga.status;
        bool const is_stuck = called == "stuck";
        add("nothing_moves_it", saga.home, "", facts_.latest,
            fmt::format("{}, and nothing has changed since: no message in an outbox, no parked delivery, no pause; {}",
                        called, *at_the_broker),
            is_stuck ? "nothing is left that an operator could retry, so it never ends"
                     : "its message may be lost: then it never ends by itself",
            saga_command("show", facts_) + (is_stuck ? ", then pause it and `skald saga close`" : ""));
    }

    // A database that was not given may have what moves it on: its outbox, a parked delivery, a call.
    bool depends_on_others(saga_fact const& saga)
    {
        bool found = false;
        auto const plan = core::parse_itinerary(saga.itinerary);
        for (auto const& step : plan ? plan->steps : std::vector<core::itinerary_step>{}) {
            if (is_given(step.service)) continue;
            add_not_examined(step.service);
            found = true;
        }
        return found;
    }

    // What is known of the queues of its services; nothing if one of them may hold its message. Whose messages a queue
    // holds is not known: one that is never empty would explain all that was ever lost.
    std::optional<std::string> message_at_the_broker(saga_fact const& saga) const
    {
        if (facts_.latest < around_.day_ago) return "for more than a day, which no queue explains";
        auto const plan = core::parse_itinerary(saga.itinerary);
        bool is_known = plan.has_value();
        for (auto const& step : plan ? plan->steps : std::vector<core::itinerary_step>{}) {
            auto const queue = around_.queues.waiting.find(step.service);
            if (queue == around_.queues.waiting.end() || !queue->second) is_known = false;
            else if (*queue->second > 0) return std::nullopt;
        }
        if (!is_known)
            return "whether a queue holds its message is not known: the audit was told of no broker, or it did not "
                   "answer";
        return around_.queues.sees_held
                   ? "the queues of its services are empty"
                   : "no message is ready in the queues of its services (one that a process holds is not seen)";
    }

    void examine_record(record_fact const& record)
    {
        if (record.home.empty()) return;  // a claim of somebody's own, for no saga
        if (!is_given(record.home)) {
            add_not_examined(record.home);
            return;
        }
        auto const* const saga = facts_.saga_at(record.home);
        if (record.status == "completed" && saga == nullptr && record.is_old) {
            add("effect_without_saga", record.service, record.step, record.at,
                fmt::format("{} completed, and {} knows of no such saga", record.step, record.home),
                "it had its effect for a saga that nobody shows, and that nobody can undo",
                fmt::format("look for what it did, and whether {} was restored from a backup (docs/repair.md)",
                            record.home));
        }
        bool const goes_on = record.status == "retrying" || record.status == "started" || record.status == "unknown";
        if (goes_on && (saga == nullptr || saga->has_ended()) && facts_.busy.empty() && record.is_old) {
            add("waits_for_nothing", record.service, record.step, record.at,
                fmt::format("{} is {}, and no message will go on with it: its saga {}", record.step, record.status,
                            saga == nullptr ? "is not at " + record.home : "is " + saga->status),
                "it is neither done nor given up, and is never deleted", saga_command("show", facts_));
        }
    }

    void examine_message(message_fact const& message)
    {
        if (message.home.empty()) return;
        if (!is_given(message.home)) {
            add_not_examined(message.home);
            return;
        }
        auto const* const saga = facts_.saga_at(message.home);
        if (!message.is_old || (saga != nullptr && (!saga->has_ended() || !saga->is_old))) return;
        add("message_for_nothing", message.service, message.id, message.at,
            fmt::format("its message to {} waits in the outbox, and its saga {}", message.to,
                        saga == nullptr ? "is not at " + message.home : "is " + saga->status),
            "if it is sent after the saga's records have expired, its step runs again",
            listing_command("outbox", facts_));
    }

    void examine_parked(parked_fact const& parked)
    {
        auto const is_waited_for = [&](saga_fact const& saga) {
            return !saga.has_ended() && (parked.home.empty() || parked.home == saga.home);
        };
        if (!parked.is_old || std::ranges::any_of(facts_.sagas, is_waited_for)) return;
        add("parked_for_nothing", parked.service, parked.step, parked.at,
            fmt::format("delivery {} is parked ({}), and no saga that is under way explains it", parked.id,
                        parked.reason),
            "nobody waits for it, so nobody will look at it; and it keeps the saga's records from expiring",
            "skald parked show " + parked.id);
    }

    key_facts const& facts_;
    surroundings const& around_;
    std::vector<finding> found_;
};

}  // namespace

std::vector<finding> examine(key_facts const& facts, surroundings const& around)
{
    return examination{facts, around}.run();
}

}  // namespace skald::audit
