#include "work.hpp"

#include <array>
#include <chrono>
#include <stdexcept>
#include <string_view>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/sha.h>

namespace bench_floor {
namespace {

using json = nlohmann::json;

constexpr char const* plan = "create-order@bench-orders=compensatable charge-payment@bench-payments=pivot "
                             "arrange-shipping@bench-shipping=retriable";
constexpr std::array<char const*, 3> services{"bench-orders", "bench-payments", "bench-shipping"};
constexpr std::array<char const*, 3> steps{"create-order", "charge-payment", "arrange-shipping"};
constexpr char const* no_money = "insufficient funds";
constexpr std::string_view undo = ".compensate";

std::size_t place_of(std::string_view step)
{
    for (std::size_t i = 0; i < steps.size(); ++i)
        if (step.starts_with(steps[i])) return i;
    throw std::runtime_error{fmt::format("the floor has no step {}", step)};
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

role role_of(std::string const& name)
{
    for (std::size_t i = 0; i < services.size(); ++i)
        if ("bench-" + name == services[i]) return {name, services[i], steps[i]};
    throw std::invalid_argument{"a service is orders, payments or shipping, and not '" + name + "'"};
}

step_work read_step(message const& received, role const& here)
{
    step_work work;
    work.received = &received;
    auto const key = received.header("x-idempotency-key");
    auto const colon = key.rfind(':');
    if (colon == std::string_view::npos || !received.type.starts_with(here.step))
        throw std::runtime_error{
            fmt::format("the floor's {} can't read a message of type {}", here.service, received.type)};
    work.scope = received.header("x-saga-scope");
    work.key = key.substr(0, colon);
    work.step = key.substr(colon + 1);
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

message next_message(step_work const& done)
{
    auto const place = place_of(done.step);
    if (done.back || place + 1 == steps.size()) return {};
    bool const back = done.rejected();
    auto const to = back ? place - 1 : place + 1;

    message m;
    m.destination = services[to];
    m.type = steps[to];
    if (back) m.type += undo;
    m.id = done.key + ':' + m.type;
    m.headers = {{"x-idempotency-key", m.id},
                 {"x-saga-scope", done.scope},
                 {"x-saga", "bench-order"},
                 {"x-saga-version", "1"},
                 {"x-saga-itinerary", fmt::format("{} {}/3 {}", back ? "back" : "forward", to + 1, plan)},
                 {"x-saga-home", services[0]},
                 {"x-attempt", "1"}};
    if (back) m.headers.emplace_back("x-saga-reason", no_money);
    m.body = done.received->body;
    return m;
}

message progress_message(std::vector<step_work> const& done, role const& here)
{
    if (here.service == services[0]) return {};
    auto const at = instant_now();
    auto members = json::array();
    step_work const* first = nullptr;
    for (auto const& work : done) {
        if (!work.fresh) continue;
        if (first == nullptr) first = &work;
        json member{{"scope", work.scope},   {"key", work.key}, {"step", work.step}, {"service", here.service},
                    {"status", "completed"}, {"attempts", 1},   {"at", at}};
        if (work.rejected()) member.update({{"status", "rejected"}, {"saga", "compensating"}, {"reason", no_money}});
        else if (here.service == services[2]) member["saga"] = "completed";
        members.push_back(std::move(member));
    }
    if (first == nullptr) return {};
    message m;
    m.destination = services[0];
    m.type = "skald.progress";
    m.id = fmt::format("{}:{}.progress", first->key, first->step);
    m.headers = {{"x-idempotency-key", m.id},
                 {"x-saga-scope", first->scope},
                 {"x-saga", "bench-order"},
                 {"x-saga-version", "1"}};
    m.body = members.dump();
    return m;
}

}  // namespace bench_floor
