#include "testing/step_parts.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace skald::testing::inner {
namespace {

// Several definitions may have a step of that name.
void add_part(std::vector<step_part>& all, step_part one)
{
    auto const same = std::ranges::find(all, one.name, &step_part::name);
    if (same == all.end()) all.push_back(std::move(one));
    else same->may_reject = same->may_reject || one.may_reject;
}

// `of`: a step, or its compensation.
void add_parts(std::vector<step_part>& all, std::string const& of, skald::detail::external_work const* work,
               bool may_reject)
{
    add_part(all, {of, may_reject});
    if (work == nullptr) return;
    if (work->is_call()) {
        add_part(all, {of + ".call", false, true});
        add_part(all, {of + ".look"});
        add_part(all, {of + ".settle", may_reject});
    }
    else {
        add_part(all, {of + ".arrived", may_reject});
        add_part(all, {of + ".timed_out", may_reject});
    }
    add_part(all, {of + ".abandon"});
}

std::string listed(std::vector<std::string> const& names)
{
    std::string text;
    for (auto const& one : names) text.append(text.empty() ? "" : ", ").append(one);
    return text;
}

bool is_one_of(std::string_view name, std::vector<step_part> const& parts)
{
    return std::ranges::find(parts, name, &step_part::name) != parts.end();
}

[[noreturn]] void refuse(std::string const& what, std::string const& why, std::vector<std::string> const& instead)
{
    throw std::invalid_argument{what + ": " + why + (instead.empty() ? "" : "; there is " + listed(instead))};
}

bool is_of_relay(crash_point point)
{
    return point == crash_point::before_publish || point == crash_point::before_confirm ||
           point == crash_point::before_delete || point == crash_point::after_delete;
}

bool is_of_call(crash_point point)
{
    return point == crash_point::before_call || point == crash_point::after_call || point == crash_point::lease_lost;
}

// "charge-payment" of "charge-payment.1.receipt", and of "control@payments" the service.
bool is_sent(simulation const& all, std::string_view name)
{
    constexpr std::string_view command = "control@";
    if (name.starts_with(command)) {
        auto const services = all.services();
        return std::ranges::find(services, name.substr(command.size())) != services.end();
    }
    return is_one_of(name.substr(0, name.find('.')), parts_of(all));
}

// What has a transaction or a call of its own and is no message: "charge.settle".
bool is_second_part(std::string_view name)
{
    constexpr std::array suffixes{".call", ".look", ".settle", ".arrived", ".timed_out", ".abandon"};
    return std::ranges::any_of(suffixes, [&](char const* one) { return name.ends_with(one); });
}

}  // namespace

std::vector<step_part> parts_of(simulation const& all)
{
    std::vector<step_part> parts;
    all.for_each_hosted([&parts](node::hosted const& one) {
        auto const& as = one.as;
        add_parts(parts, one.step, as.step->external(true), as.handles || as.kind != step_kind::retriable);
        if (!as.handles && as.kind == step_kind::compensatable)
            add_parts(parts, one.step + ".compensate", as.step->external(false), false);
    });
    return parts;
}

step_part part_named(simulation const& all, std::string const& what, std::string_view name)
{
    auto const parts = parts_of(all);
    auto const found = std::ranges::find(parts, name, &step_part::name);
    if (found != parts.end()) return *found;
    std::vector<std::string> names(parts.size());
    std::ranges::transform(parts, names.begin(), &step_part::name);
    refuse(what, "no step of that name is hosted here", names);
}

void require_reachable(simulation const& all, crash_point point, std::string_view name)
{
    auto const what = "crash_at(" + std::string{name_of(point)} + ", \"" + std::string{name} + "\")";
    auto const parts = parts_of(all);
    if (is_of_call(point)) {
        std::vector<std::string> calls;
        for (auto const& one : parts)
            if (one.is_call) calls.push_back(one.name);
        bool const is_call = name.empty() ? !calls.empty() : std::ranges::find(calls, name) != calls.end();
        if (!is_call) refuse(what, "that is a point of a call, and no call is named so", calls);
        return;
    }
    if (name.empty()) return;
    if (!is_of_relay(point) && is_one_of(name, parts)) return;
    if (is_of_relay(point) && is_second_part(name))
        refuse(what, "the relay sends messages, and this is none; name the step or report that follows from it", {});
    if (!is_sent(all, name)) static_cast<void>(part_named(all, what, name));
    bool const is_of_claim = point == crash_point::before_claim || point == crash_point::after_claim;
    if ((point == crash_point::after_step || is_of_claim) && !is_one_of(name, parts))
        refuse(what,
               is_of_claim ? "nothing is claimed for a message of that name"
                           : "no step's code runs for a message of that name",
               {});
}

}  // namespace skald::testing::inner
