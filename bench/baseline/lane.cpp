#include "lane.hpp"

#include "business.hpp"

#include <unordered_map>

#include <nlohmann/json.hpp>

namespace bench_baseline {
namespace {

using namespace std::chrono_literals;
using json = nlohmann::json;

/// The identities of steps, column by column.
struct identities
{
    std::vector<std::string> scopes, keys, steps, fingerprints;

    void add(step_work const& work)
    {
        scopes.push_back(work.scope);
        keys.push_back(work.key);
        steps.push_back(work.step);
        fingerprints.push_back(work.fingerprint);
    }
    parameters names() const { return {text_array(scopes), text_array(keys), text_array(steps)}; }
    parameters all() const
    {
        auto values = names();
        values.push_back(bytea_array(fingerprints));
        return values;
    }
};

std::string headers_as_json(message const& m)
{
    auto object = json::object();
    for (auto const& [name, value] : m.headers) object[name] = value;
    return object.dump();
}

}  // namespace

lane::lane(baseline_options const& options, role here, relay& out)
    : options_{options}, here_{std::move(here)}, out_{out}, broker_{options.broker_url}
{
    database_.emplace(options_.database_url, here_.name, here_.shop);
    broker_.declare(here_.service);
}

void lane::run(std::stop_token const& stop)
{
    broker_.consume(here_.service, static_cast<std::uint16_t>(options_.prefetch));
    while (!stop.stop_requested()) {
        auto const batch = take();
        if (batch.empty()) continue;
        settle(batch);
        broker_.ack_up_to(batch.back().tag);  // after COMMIT, and only then
    }
}

std::vector<broker::delivery> lane::take()
{
    std::vector<broker::delivery> batch;
    auto wait = 100ms;  // for the first; then only what is there
    while (static_cast<int>(batch.size()) < options_.batch_max) {
        auto taken = broker_.next(wait);
        if (!taken) break;
        batch.push_back(std::move(*taken));
        wait = 0ms;
    }
    return batch;
}

void lane::settle(std::vector<broker::delivery> const& batch)
{
    std::vector<step_work> steps;
    std::vector<message const*> progress;
    for (auto const& d : batch) {
        if (d.content.type == "skald.progress") progress.push_back(&d.content);
        else steps.push_back(read_step(d.content, here_));
    }
    while (true) {
        try {
            return settle_in_transaction(steps, progress);
        }
        catch (database_error const& met) {
            if (!met.try_again()) throw;
            database_.emplace(options_.database_url, here_.name, here_.shop);
            for (auto& work : steps) work.fresh = work.rejected = false;
        }
    }
}

void lane::settle_in_transaction(std::vector<step_work>& steps, std::vector<message const*> const& progress)
{
    saga_states advanced;
    database_->add("begin", {});
    if (!steps.empty()) {
        claim(steps);
        do_business(*database_, here_, options_.each, steps);
        add_records(steps, advanced);
    }
    add_progress(progress, advanced);
    add_advances(advanced);

    std::vector<message> messages;
    for (auto const& work : steps)
        if (work.fresh)
            if (auto next = next_message(work, here_); !next.destination.empty()) messages.push_back(std::move(next));
    if (auto word = progress_message(steps, here_); !word.destination.empty()) messages.push_back(std::move(word));
    add_enqueue(messages);
    database_->add("commit", {});
    auto const answers = database_->flush();
    if (messages.empty()) return;

    auto const& ids = answers.at(answers.size() - 2);
    std::vector<outgoing> out;
    for (int i = 0; i < ids.size(); ++i)
        out.push_back({ids.number_at(i, 0), std::move(messages.at(static_cast<std::size_t>(i)))});
    out_.hand_over(std::move(out));
}

// BEGIN and the claim are one round trip.
void lane::claim(std::vector<step_work>& steps)
{
    identities wanted;
    std::unordered_map<std::string, step_work*> firsts;  // if a key comes twice in one batch, the first has it
    for (auto& work : steps)
        if (firsts.emplace(work.scope + '\n' + work.key + '\n' + work.step, &work).second) wanted.add(work);
    database_->add("claim", wanted.all());
    auto const claimed = database_->flush().back();
    for (int i = 0; i < claimed.size(); ++i) {
        auto const name =
            std::string{claimed.at(i, 0)} + '\n' + std::string{claimed.at(i, 1)} + '\n' + std::string{claimed.at(i, 2)};
        firsts.at(name)->fresh = true;
    }
    check_what_was_met(steps);
}

void lane::check_what_was_met(std::vector<step_work> const& steps)
{
    identities met;
    for (auto const& work : steps)
        if (!work.fresh) met.add(work);
    if (met.keys.empty()) return;
    if (database_->run("count_mismatches", met.all()).number_at(0, 0) > 0)
        throw std::runtime_error{"a key came again with another body: the baseline can't park it"};
}

// A fresh record already says `completed`. A saga that ends with a step at its home has its row here.
void lane::add_records(std::vector<step_work> const& steps, saga_states& advanced)
{
    identities rejected;
    std::vector<std::string> reasons;
    for (auto const& work : steps) {
        if (!work.fresh) continue;
        if (work.rejected) {
            rejected.add(work);
            reasons.push_back(reason_of(work));
        }
        if (auto const end = end_of_saga(work, here_); !end.empty() && here_.is_home())
            advanced[{work.scope, work.key}] = {end, reason_of(work)};
    }
    if (reasons.empty()) return;
    auto values = rejected.names();
    values.push_back(text_array(reasons));
    database_->add("reject", values);
}

void lane::add_progress(std::vector<message const*> const& progress, saga_states& advanced)
{
    if (progress.empty()) return;
    auto members = json::array();
    for (auto const* m : progress)
        for (auto& member : json::parse(m->body)) members.push_back(std::move(member));
    database_->add("record_progress", {text(members.dump())});
    for (auto const& member : members)
        if (member.contains("saga"))  // if the saga ends here as well, the end is what counts
            advanced.try_emplace({member.at("scope"), member.at("key")},
                                 saga_state{member.at("saga"), member.value("reason", "")});
}

// All in one statement and in the order of their keys, so that no two lanes wait for each other.
void lane::add_advances(saga_states const& advanced)
{
    if (advanced.empty()) return;
    std::vector<std::string> scopes, keys, states, reasons;
    for (auto const& [saga, now] : advanced) {
        scopes.push_back(saga.first);
        keys.push_back(saga.second);
        states.push_back(now.state);
        reasons.push_back(now.reason);
    }
    database_->add("advance", {text_array(scopes), text_array(keys), text_array(states), text_array(reasons)});
}

void lane::add_enqueue(std::vector<message> const& messages)
{
    if (messages.empty()) return;
    std::vector<std::string> aggregates, types, payloads, scopes, ids, headers, destinations;
    for (auto const& m : messages) {
        aggregates.emplace_back(m.id.substr(0, m.id.rfind(':')));
        types.push_back(m.type);
        payloads.push_back(m.body);
        scopes.emplace_back(m.header("x-saga-scope"));
        ids.push_back(m.id);
        headers.push_back(headers_as_json(m));
        destinations.push_back(m.destination);
    }
    database_->add("enqueue", {text_array(aggregates), text_array(types), bytea_array(payloads), text_array(scopes),
                               text_array(ids), text_array(headers), text_array(destinations), text(here_.plan.name)});
}

}  // namespace bench_baseline
