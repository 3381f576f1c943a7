#include "work.hpp"

#include <chrono>
#include <stdexcept>
#include <string_view>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/sha.h>

namespace bench_baseline {
namespace {

using json = nlohmann::json;

constexpr std::string_view undo = ".compensate";

saga_plan plan_of(bool shop)
{
    if (!shop)
        return {"bench-order",
                {{"create-order", "bench-orders", "compensatable"},
                 {"charge-payment", "bench-payments", "pivot"},
                 {"arrange-shipping", "bench-shipping", "retriable"}}};
    return {"place-order",
            {{"create-order", "orders", "compensatable"},
             {"charge-payment", "payments", "compensatable"},
             {"arrange-shipping", "shipping", "pivot"},
             {"confirm-order", "orders", "retriable"}}};
}

std::size_t place_of(std::string_view step, role const& here)
{
    if (step.ends_with(undo)) step.remove_suffix(undo.size());
    auto const& steps = here.plan.steps;
    for (std::size_t i = 0; i < steps.size(); ++i)
        if (step == steps[i].name && steps[i].service == here.service) return i;
    throw std::runtime_error{fmt::format("the baseline's {} has no step {}", here.service, step)};
}

std::string itinerary(bool back, std::size_t place, saga_plan const& plan)
{
    auto text = fmt::format("{} {}/{}", back ? "back" : "forward", place + 1, plan.steps.size());
    for (auto const& step : plan.steps) text += fmt::format(" {}@{}={}", step.name, step.service, step.kind);
    return text;
}

std::string sha256(std::string const& text)
{
    std::string digest(SHA256_DIGEST_LENGTH, '\0');
    SHA256(reinterpret_cast<unsigned char const*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
    return digest;
}

std::string instant_now()
{
    auto const now = std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
    auto const whole = std::chrono::floor<std::chrono::seconds>(now);
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(whole)),
                       (now - whole).count());
}

}  // namespace

role role_of(std::string const& name, bool shop)
{
    role here{name, (shop ? "" : "bench-") + name, shop, plan_of(shop)};
    for (auto const& step : here.plan.steps)
        if (step.service == here.service) return here;
    throw std::invalid_argument{"a service is orders, payments or shipping, and not '" + name + "'"};
}

step_work read_step(message const& received, role const& here)
{
    step_work work;
    work.received = &received;
    auto const key = received.header("x-idempotency-key");
    auto const colon = key.rfind(':');
    if (colon == std::string_view::npos)
        throw std::runtime_error{
            fmt::format("the baseline's {} can't read a message of type {}", here.service, received.type)};
    work.scope = received.header("x-saga-scope");
    work.key = key.substr(0, colon);
    work.step = key.substr(colon + 1);
    work.place = place_of(work.step, here);
    work.back = work.step.ends_with(undo);
    work.fingerprint = sha256(received.body);
    auto const order = json::parse(received.body);
    work.order_id = order.at("id").get<std::string>();
    work.customer = order.at("customer").get<std::string>();
    work.sku = order.at("sku").get<std::string>();
    work.quantity = std::to_string(order.at("quantity").get<int>());
    work.cents = std::to_string(order.at("cents").get<std::int64_t>());
    return work;
}

std::string reason_of(step_work const& done)
{
    if (done.rejected) return done.step == "charge-payment" ? "insufficient funds" : "out of stock";
    return std::string{done.received->header("x-saga-reason")};
}

std::string end_of_saga(step_work const& done, role const& here)
{
    if (done.back) return done.place == 0 ? "compensated" : "";
    return done.place + 1 == here.plan.steps.size() ? "completed" : "";
}

message next_message(step_work const& done, role const& here)
{
    if (!end_of_saga(done, here).empty()) return {};
    bool const back = done.back || done.rejected;
    auto const to = back ? done.place - 1 : done.place + 1;
    auto const& step = here.plan.steps.at(to);

    message m;
    m.destination = step.service;
    m.type = step.name;
    if (back) m.type += undo;
    m.id = done.key + ':' + m.type;
    m.headers = {{"x-idempotency-key", m.id},
                 {"x-saga-scope", done.scope},
                 {"x-saga", here.plan.name},
                 {"x-saga-version", "1"},
                 {"x-saga-itinerary", itinerary(back, to, here.plan)},
                 {"x-saga-home", here.plan.steps.front().service},
                 {"x-attempt", "1"}};
    if (back) m.headers.emplace_back("x-saga-reason", reason_of(done));
    m.body = done.received->body;
    return m;
}

message progress_message(std::vector<step_work> const& done, role const& here)
{
    if (here.is_home()) return {};
    auto const at = instant_now();
    auto members = json::array();
    step_work const* first = nullptr;
    for (auto const& work : done) {
        if (!work.fresh) continue;
        if (first == nullptr) first = &work;
        json member{{"scope", work.scope},   {"key", work.key}, {"step", work.step}, {"service", here.service},
                    {"status", "completed"}, {"attempts", 1},   {"at", at}};
        if (work.rejected)
            member.update({{"status", "rejected"}, {"saga", "compensating"}, {"reason", reason_of(work)}});
        else if (auto const end = end_of_saga(work, here); !end.empty()) member["saga"] = end;
        members.push_back(std::move(member));
    }
    if (first == nullptr) return {};
    message m;
    m.destination = here.plan.steps.front().service;
    m.type = "skald.progress";
    m.id = fmt::format("{}:{}.progress", first->key, first->step);
    m.headers = {{"x-idempotency-key", m.id},
                 {"x-saga-scope", first->scope},
                 {"x-saga", here.plan.name},
                 {"x-saga-version", "1"}};
    m.body = members.dump();
    return m;
}

}  // namespace bench_baseline
