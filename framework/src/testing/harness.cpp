#include <skald/testing/harness.hpp>

#include "core/envelope.hpp"
#include "core/text.hpp"
#include "postgres/literal.hpp"
#include "skald_testing_queries.hpp"
#include "testing/final_state.hpp"
#include "testing/harness_implementation.hpp"
#include "testing/prover.hpp"
#include "testing/step_alone_implementation.hpp"
#include "testing/step_parts.hpp"
#include "worker/service_parts.hpp"

#include <skald/errors.hpp>

#include <pqxx/pqxx>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace skald::testing {

namespace {

std::string list(std::vector<std::string> const& all)
{
    if (all.empty()) return "nothing";
    std::string text;
    for (auto const& one : all) text.append(text.empty() ? "" : ", ").append(one);
    return text;
}

std::string in_words(started_view const& s)
{
    auto text = s.step + " in " + s.service + (s.kind == "call" ? " is to be called" : " waits");
    if (s.is_in_doubt) text = s.step + " in " + s.service + " was called, and what became of that is not known";
    return text + "; due in " + std::to_string(s.due_in.count()) + " ms" + (s.error.empty() ? "" : ": " + s.error);
}

}  // namespace

harness::harness(std::string database_url) : implementation_{std::make_unique<implementation>(std::move(database_url))}
{}
harness::~harness() = default;

inner::service_database& harness::implementation::database(std::string const& service)
{
    auto const known = all.services();
    if (std::ranges::find(known, service) == known.end())
        throw configuration_error{"there is no service " + service + " here; there is " + list(known)};
    return begun().service(service).database();
}

void harness::implementation::require_no_database(std::string const& service, std::string const& what)
{
    if (all.service(service).has_database())
        throw configuration_error{what + " for " + service +
                                  ": its database has been made; call it before the first saga, or make another "
                                  "harness"};
}

harness& harness::add(service what)
{
    auto& all = implementation_->all;
    auto& parts = what.parts();
    if (!parts.migrations.empty()) implementation_->require_no_database(parts.name, "add() of migrations");
    all.end();
    // Keeps the services in the order of the plan, whatever the order of the calls.
    for (auto const& one : parts.steps)
        for (auto const& planned : one.plan) all.service(std::string{planned.service});
    auto& at = all.service(parts.name);
    for (auto& one : parts.steps) at.host({one.definition, one.name, std::move(one.hosted)});
    std::ranges::move(parts.migrations, std::back_inserter(at.migrations));
    return *this;
}

harness& harness::add(std::function<service()> make)
{
    auto first = make();
    auto const name = first.name();
    add(std::move(first));
    implementation_->all.service(name).makers.push_back(std::move(make));
    return *this;
}

harness& harness::given(std::string const& service, std::string_view sql)
{
    implementation_->require_no_database(service, "given()");
    implementation_->all.service(service).given.append(sql).append(";\n");
    return *this;
}

harness& harness::watch(outside_effect what)
{
    auto& all = implementation_->all.outside;
    if (std::ranges::find(all, what.name, &outside_effect::name) != all.end())
        throw configuration_error{"watch(\"" + what.name + "\"): something of that name is watched already"};
    all.push_back(std::move(what));
    return *this;
}

std::string harness::database_url(std::string const& service)
{
    return implementation_->database(service).url();
}

void harness::rewind()
{
    implementation_->shown.clear();
    implementation_->all.begin();
}

std::string harness::start(scenario const& what, start_options const& options)
{
    return implementation_->begun().start({what.definition, what.version, what.plan, what.data, what.attributes},
                                          options);
}

bool harness::deliver_next()
{
    auto& all = implementation_->begun();
    all.wake();
    return implementation_->go_on();
}

bool harness::deliver(std::string_view name)
{
    auto& all = implementation_->begun();
    all.wake();
    all.pull();
    auto const& hand = all.hand();
    auto const found = std::ranges::find(hand, name, &inner::held::name);
    if (found == hand.end()) return false;
    all.process(static_cast<std::size_t>(found - hand.begin()));
    return true;
}

std::size_t harness::deliver_all()
{
    implementation_->begun().wake();
    std::size_t count = 0;
    while (implementation_->go_on()) ++count;
    return count;
}

std::size_t harness::run_to_the_end()
{
    constexpr std::size_t deliveries_max = 10'000;
    auto& all = implementation_->begun();
    std::size_t count = deliver_all();
    while (all.advance_to_next()) {
        count += deliver_all();
        if (count <= deliveries_max) continue;
        auto const errors = inner::errors_of(all);
        throw std::runtime_error{"the deliveries do not end: " + std::to_string(count) +
                                 " were processed, and the last that was sent is " + sent().back().name +
                                 (errors.empty() ? "" : ". Steps said:\n" + errors)};
    }
    return count;
}

void harness::advance(std::chrono::milliseconds time)
{
    implementation_->begun().advance(time);
}

void harness::replay(message_view const& what, int times)
{
    if (what.number == 0 || what.number > implementation_->shown.size())
        throw std::invalid_argument{
            "replay() wants a message out of sent() or waiting(), seen since the last rewind()"};
    for (int i = 0; i < times; ++i) implementation_->all.send_again(implementation_->shown[what.number - 1]);
}

void harness::crash_at(crash_point point, std::string_view step)
{
    inner::require_reachable(implementation_->all, point, step);
    implementation_->begun().fault_plan.plan({std::string{step}, point, 0});
}

void harness::reject_at(std::string_view step, std::string reason)
{
    auto const what = "reject_at(\"" + std::string{step} + "\")";
    if (!inner::part_named(implementation_->all, what, step).may_reject)
        throw std::invalid_argument{
            what + ": only a compensatable step, a pivot or a message handler rejects, in its own transactions; "
                   "fail() makes any other throw, and refuse_call() a call that does not happen"};
    implementation_->begun().rules.rejections[std::string{step}] = std::move(reason);
}

void harness::fail(std::string_view step, int times)
{
    static_cast<void>(inner::part_named(implementation_->all, "fail(\"" + std::string{step} + "\")", step));
    implementation_->begun().rules.faults[std::string{step}] = times;
}

void harness::refuse_call(std::string_view step, int times)
{
    auto const call = std::string{step} + ".call";
    static_cast<void>(inner::part_named(implementation_->all, "refuse_call(\"" + std::string{step} + "\")", call));
    implementation_->begun().rules.refusals[std::string{step}] = times;
}

signal_result harness::signal_as_json(std::string const& key, std::string_view step, std::string const& body,
                                      std::string const& scope)
{
    return implementation_->begun().signal({scope, key}, step, body);
}

void harness::cancel(std::string const& key, std::string const& scope)
{
    auto const refused = implementation_->begun().cancel({scope, key});
    if (!refused.empty()) throw std::runtime_error{"the saga " + key + " can't be cancelled: " + refused};
}

message_view harness::implementation::view(core::message const& m)
{
    shown.push_back(m);
    message_view seen{shown.size(), all.name_of(m), m.destination, m.id, m.type, 1, m.body};
    auto const attempt = core::find_header(m.headers, core::header::attempt).value_or("1");
    std::from_chars(attempt.data(), attempt.data() + attempt.size(), seen.attempt);
    return seen;
}

std::vector<message_view> harness::sent() const
{
    std::vector<message_view> all;
    for (auto const& m : implementation_->begun().sent()) all.push_back(implementation_->view(m));
    return all;
}

std::vector<message_view> harness::waiting()
{
    implementation_->begun().wake();
    implementation_->all.pull();
    std::vector<message_view> all;
    for (auto const& one : implementation_->all.hand()) all.push_back(implementation_->view(one.delivery.message));
    return all;
}

saga_view harness::saga(std::string const& key, std::string const& scope)
{
    saga_view seen;
    seen.key = key;
    auto* const home = implementation_->begun().home({scope, key});
    if (home == nullptr) return seen;
    auto const found =
        home->database().session().run(postgres::filled_in(testing_queries::sagas{.scope = scope, .key = key}));
    if (found.empty()) return seen;
    seen.status = found[0]["status"].c_str();
    seen.reason = found[0]["reason"].c_str();
    seen.data = found[0]["data"].c_str();
    return seen;
}

std::vector<record_view> harness::records(std::string const& key, std::string const& scope)
{
    auto& all = implementation_->begun();
    auto const query = postgres::filled_in(testing_queries::records{.scope = scope, .key = key});
    std::vector<record_view> seen;
    for (auto const& name : all.services())
        for (auto const& row : all.service(name).database().session().run(query))
            seen.push_back(
                {name, row["step"].c_str(), row["status"].c_str(), row["attempts"].as<int>(), row["error"].c_str()});
    return seen;
}

std::vector<started_view> harness::started()
{
    auto& all = implementation_->begun();
    std::vector<started_view> seen;
    for (auto const& name : all.services())
        for (auto const& row : all.service(name).database().run(testing_queries::started))
            seen.push_back({name, row["key"].c_str(), row["scope"].c_str(), row["step"].c_str(), row["kind"].c_str(),
                            row["in_doubt"].as<bool>(), row["calls"].as<int>(), row["error"].c_str(),
                            std::chrono::milliseconds{row["due_in"].as<std::int64_t>()}});
    std::ranges::stable_sort(seen, {}, &started_view::due_in);
    return seen;
}

rows harness::ask(std::string const& service, std::string const& sql)
{
    return implementation_->database(service).ask(sql);
}

check_result harness::saga_is(std::string const& key, std::string_view status, std::string const& scope)
{
    auto const is = saga(key, scope);
    if (is.status == status) return check_result::success();
    std::string text = "the saga " + key + " is expected to be " + std::string{status};
    if (is.status.empty()) return check_result::failure(text + ", and there is no such saga");
    text += ", and it is " + is.status + (is.reason.empty() ? "" : " (" + is.reason + ')') + ". Its steps:";
    auto const steps = records(key, scope);
    for (auto const& r : steps)
        text.append("\n  ").append(r.step).append(" in ").append(r.service).append(": ").append(r.status).append(
            r.error.empty() ? "" : ", " + r.error);
    if (steps.empty()) text += " none";
    for (auto const& s : started())
        if (s.key == key && s.scope == scope) text.append("\n  ").append(in_words(s));
    std::vector<std::string> names;
    for (auto const& m : waiting()) names.push_back(m.name);
    return check_result::failure(text + "\n  waiting to be delivered: " + list(names));
}

check_result harness::was_sent(std::string_view name, std::size_t times) const
{
    std::vector<std::string> names;
    for (auto const& m : sent()) names.push_back(m.name);
    auto const count = static_cast<std::size_t>(
        std::ranges::count_if(names, [&](auto const& n) { return n == name || inner::without_number(n) == name; }));
    if (count == times) return check_result::success();
    return check_result::failure(std::string{name} + " is expected to have been sent " + std::to_string(times) +
                                 " times, and was " + std::to_string(count) + " times. Sent: " + list(names));
}

check_result harness::ran(std::string_view step, std::size_t times) const
{
    static_cast<void>(inner::part_named(implementation_->all, "ran(\"" + std::string{step} + "\")", step));
    auto const& runs = implementation_->all.rules.runs;
    auto const it = runs.find(std::string{step});
    auto const count = it == runs.end() ? 0 : static_cast<std::size_t>(it->second);
    if (count == times) return check_result::success();
    std::vector<std::string> all;
    all.reserve(runs.size());
    for (auto const& [name, n] : runs) all.push_back(name + ' ' + std::to_string(n) + " times");
    return check_result::failure("the code of " + std::string{step} + " is expected to have run " +
                                 std::to_string(times) + " times, and ran " + std::to_string(count) +
                                 " times. Ran: " + list(all));
}

check_result harness::applied_once(std::string const& key, std::string_view step, std::string const& scope)
{
    auto const derived = key + ':' + std::string{step};
    auto const& applied = implementation_->all.rules.applied;
    auto const it = applied.find({scope, derived});
    int const count = it == applied.end() ? 0 : it->second;
    auto const all = records(key, scope);
    auto const record = std::ranges::find(all, step, &record_view::step);
    bool const completed = record != all.end() && record->status == "completed";
    if (completed && count == 1) return check_result::success();
    return check_result::failure(derived + " is expected to have been applied once: it was committed " +
                                 std::to_string(count) + " times, and its record says " +
                                 (record == all.end() ? "nothing: there is none" : record->status));
}

check_result harness::outboxes_are_empty()
{
    auto& all = implementation_->begun();
    std::vector<std::string> left;
    testing_queries::state const state{.calls = std::vector<std::string>{}};
    for (auto const& name : all.services())
        for (auto const& row : all.service(name).database().run(state))
            if (row["kind"].c_str() == std::string_view{"outbox"}) left.push_back(name + ": " + row["line"].c_str());
    if (left.empty()) return check_result::success();
    return check_result::failure("the outboxes are expected to be empty, and hold " + list(left));
}

step_alone harness::alone(std::string const& service)
{
    static_cast<void>(implementation_->database(service));
    return step_alone{std::make_unique<step_alone::implementation>(implementation_->all.service(service))};
}

proof harness::prove(scenario const& what, proof_options const& options)
{
    implementation_->shown.clear();
    auto proved =
        prover{implementation_->all, {what.definition, what.version, what.plan, what.data, what.attributes}, options}
            .prove();
    rewind();
    return proved;
}

}  // namespace skald::testing
