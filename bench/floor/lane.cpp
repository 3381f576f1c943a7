#include "lane.hpp"

#include <functional>
#include <unordered_map>

#include <nlohmann/json.hpp>

namespace bench_floor {
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

template <class Of>
parameter column(std::vector<step_work const*> const& works, Of const& of)
{
    std::vector<std::string> values;
    for (auto const* work : works) values.push_back(std::invoke(of, *work));
    return text_array(values);
}

}  // namespace

lane::lane(floor_options const& options, role here, relay& out)
    : options_{options}, here_{std::move(here)}, out_{out}, broker_{options.broker_url}
{
    database_.emplace(options_.database_url, here_.name);
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
            database_.emplace(options_.database_url, here_.name);
            for (auto& work : steps) work.fresh = false;
        }
    }
}

void lane::settle_in_transaction(std::vector<step_work>& steps, std::vector<message const*> const& progress)
{
    database_->add("begin", {});
    if (!steps.empty()) {
        claim(steps);
        do_business(steps);
        add_records(steps);
    }
    add_progress(progress);

    std::vector<message> messages;
    for (auto const& work : steps)
        if (work.fresh)
            if (auto next = next_message(work); !next.destination.empty()) messages.push_back(std::move(next));
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
    std::unordered_map<std::string, step_work*> firsts;  // of the same key twice in one batch, the first has it
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
        throw std::runtime_error{"a key came again with another body: the floor can't park it"};
}

void lane::do_business(std::vector<step_work> const& steps)
{
    std::vector<step_work const*> works;
    for (auto const& work : steps)
        if (work.fresh && !work.rejected()) works.push_back(&work);
    if (works.empty()) return;
    if (!options_.each) return do_all(works);
    for (auto const* work : works) do_each(*work);
}

void lane::do_each(step_work const& work)
{
    if (work.back) database_->run("cancel_orders", {text_array(std::vector{work.order_id})});
    else if (here_.name == "orders")
        database_->run("create_order", {text(work.order_id), text(work.customer), text(work.sku), text(work.quantity),
                                        text(work.cents)});
    else if (here_.name == "shipping")
        database_->run("ship", {text(work.order_id), text(work.sku), text(work.quantity)});
    else if (work.customer == "hot") database_->run("pay_from_wallet", {text(work.customer), text(work.cents)});
    else database_->run("charge", {text(work.order_id), text(work.customer), text(work.cents)});
}

void lane::do_all(std::vector<step_work const*> const& works)
{
    std::vector<step_work const*> back, plain;
    std::int64_t from_wallet = 0;
    for (auto const* work : works) {
        if (work->back) back.push_back(work);
        else if (here_.name == "payments" && work->customer == "hot") from_wallet += std::stoll(work->cents);
        else plain.push_back(work);
    }
    if (!back.empty()) database_->run("cancel_orders", {column(back, &step_work::order_id)});
    if (from_wallet != 0) database_->run("pay_from_wallet", {text("hot"), number(from_wallet)});
    if (plain.empty()) return;
    auto const ids = column(plain, &step_work::order_id), customers = column(plain, &step_work::customer),
               skus = column(plain, &step_work::sku), quantities = column(plain, &step_work::quantity),
               cents = column(plain, &step_work::cents);
    if (here_.name == "orders") database_->run("create_orders", {ids, customers, skus, quantities, cents});
    else if (here_.name == "payments") database_->run("charge_all", {ids, customers, cents});
    else database_->run("ship_all", {ids, skus, quantities});
}

// A fresh record says `completed` already. A compensation that has run ends its saga, whose row is here.
void lane::add_records(std::vector<step_work> const& steps)
{
    identities rejected, undone;
    for (auto const& work : steps) {
        if (!work.fresh) continue;
        if (work.rejected()) rejected.add(work);
        if (work.back) undone.add(work);
    }
    if (!rejected.keys.empty()) {
        auto values = rejected.names();
        values.push_back(text("insufficient funds"));
        database_->add("reject", values);
    }
    if (undone.keys.empty()) return;
    std::vector<std::string> const states(undone.keys.size(), "compensated"), reasons(undone.keys.size());
    database_->add("advance",
                   {text_array(undone.scopes), text_array(undone.keys), text_array(states), text_array(reasons)});
}

void lane::add_progress(std::vector<message const*> const& progress)
{
    if (progress.empty()) return;
    auto members = json::array();
    for (auto const* m : progress)
        for (auto& member : json::parse(m->body)) members.push_back(std::move(member));
    database_->add("note_progress", {text(members.dump())});

    std::vector<std::string> scopes, keys, states, reasons;
    for (auto const& member : members) {
        if (!member.contains("saga")) continue;
        scopes.push_back(member.at("scope"));
        keys.push_back(member.at("key"));
        states.push_back(member.at("saga"));
        reasons.push_back(member.value("reason", ""));
    }
    if (!keys.empty())
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
                               text_array(ids), text_array(headers), text_array(destinations)});
}

}  // namespace bench_floor
