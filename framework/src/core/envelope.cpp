#include "core/envelope.hpp"

#include "core/body_reference.hpp"
#include "core/span_context.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>

namespace skald::core {
namespace {

std::string_view text_of(message const& m, std::string_view name)
{
    return find_header(m.headers, name).value_or(std::string_view{});
}

std::optional<int> number_of(message const& m, std::string_view name, int least, int missing)
{
    auto const text = find_header(m.headers, name);
    if (!text) return missing;
    int number{};
    auto const [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (error != std::errc{} || end != text->data() + text->size() || number < least || number > count_max)
        return std::nullopt;
    return number;
}

// False if the header is there and is not a time.
bool read_instant(message const& m, std::string_view name, std::optional<instant>& into)
{
    auto const text = find_header(m.headers, name);
    if (text) into = parse_instant(*text);
    return !text || into;
}

refusal missing_or_malformed(std::string_view name)
{
    return {"header " + std::string{name} + " is missing or malformed"};
}

// One of Skald's headers given twice could mean one thing here and another to the next reader.
std::string_view header_given_twice(message const& m)
{
    std::set<std::string_view> seen;
    for (auto const& [name, value] : m.headers)
        if (name.starts_with("x-") && !seen.insert(name).second) return name;
    return {};
}

}  // namespace

bool is_skalds_header(std::string_view name)
{
    static constexpr std::array names{header::idempotency_key,
                                      header::scope,
                                      header::definition,
                                      header::version,
                                      header::itinerary,
                                      header::home,
                                      header::reason,
                                      header::attempt,
                                      header::snoozes,
                                      header::saga_deadline,
                                      header::step_deadline,
                                      header::waits_since,
                                      header::body};
    return std::ranges::find(names, name) != names.end();
}

envelope envelope::at(position there) const
{
    envelope other = *this;
    other.itinerary.position = there;
    other.attempt = 1;
    other.snoozes = 0;
    other.step_deadline.reset();
    other.waits_since.reset();
    return other;
}

std::optional<instant> envelope::deadline() const
{
    if (itinerary.position.direction == direction::back || itinerary.past_pivot()) return std::nullopt;
    if (!saga_deadline || !step_deadline) return saga_deadline ? saga_deadline : step_deadline;
    return std::min(saga_deadline, step_deadline);
}

trace_context valid_trace(std::string_view traceparent, std::string_view tracestate)
{
    if (!parse_traceparent(traceparent)) return {};
    return {std::string{traceparent}, std::string{is_tracestate(tracestate) ? tracestate : std::string_view{}}};
}

void add_trace(header_list& headers, trace_context const& trace)
{
    if (!trace.traceparent.empty()) headers.emplace_back(header::traceparent, trace.traceparent);
    if (!trace.tracestate.empty()) headers.emplace_back(header::tracestate, trace.tracestate);
}

void remove_trace(header_list& headers)
{
    std::erase_if(headers,
                  [](auto const& one) { return one.first == header::traceparent || one.first == header::tracestate; });
}

std::variant<envelope, refusal> read_envelope(message const& received)
{
    if (auto const twice = header_given_twice(received); !twice.empty())
        return refusal{"header " + std::string{twice} + " is given twice"};
    auto const key = parse_derived_key(text_of(received, header::idempotency_key));
    if (!key && !find_header(received.headers, header::idempotency_key))
        return refusal{
            "header x-idempotency-key is missing, so Skald did not send it; a message handler's messages go to "
            "its own address, SERVICE.on.NAME"};
    if (!key) return missing_or_malformed(header::idempotency_key);

    envelope e;
    e.saga = {std::string{text_of(received, header::scope)}, key->key};
    if (!find_header(received.headers, header::scope) || !is_scope(e.saga.scope))
        return missing_or_malformed(header::scope);

    e.definition = text_of(received, header::definition);
    if (!is_name(e.definition)) return missing_or_malformed(header::definition);

    e.home = text_of(received, header::home);
    if (!is_name(e.home)) return missing_or_malformed(header::home);

    auto itinerary = parse_itinerary(text_of(received, header::itinerary));
    if (!itinerary) return missing_or_malformed(header::itinerary);
    e.itinerary = std::move(*itinerary);

    auto const version = number_of(received, header::version, 1, 1);
    auto const attempt = number_of(received, header::attempt, 1, 1);
    auto const snoozes = number_of(received, header::snoozes, 0, 0);
    if (!version) return missing_or_malformed(header::version);
    if (!attempt) return missing_or_malformed(header::attempt);
    if (!snoozes || *snoozes > count_max - *attempt) return missing_or_malformed(header::snoozes);
    e.version = *version;
    e.attempt = *attempt;
    e.snoozes = *snoozes;

    if (!read_instant(received, header::saga_deadline, e.saga_deadline))
        return missing_or_malformed(header::saga_deadline);
    if (!read_instant(received, header::step_deadline, e.step_deadline))
        return missing_or_malformed(header::step_deadline);

    if (e.key() != *key || received.type != key->step)
        return refusal{"the key, the type and the itinerary do not refer to the same step"};

    read_instant(received, header::waits_since, e.waits_since);  // decides nothing but when a wait ends
    e.reason = storable_text(text_of(received, header::reason));
    e.trace = valid_trace(text_of(received, header::traceparent), text_of(received, header::tracestate));
    return e;
}

message write_message(envelope const& e, std::string body)
{
    message m;
    m.destination = e.itinerary.current().service;
    m.id = e.key().text();
    m.type = e.itinerary.current().name;
    m.headers = {
        {std::string{header::idempotency_key}, m.id},
        {std::string{header::scope}, e.saga.scope},
        {std::string{header::definition}, e.definition},
        {std::string{header::version}, std::to_string(e.version)},
        {std::string{header::itinerary}, e.itinerary.text()},
        {std::string{header::home}, e.home},
        {std::string{header::attempt}, std::to_string(e.attempt)},
    };
    auto const add = [&](std::string_view name, std::string const& value) {
        if (!value.empty()) m.headers.emplace_back(name, value);
    };
    add(header::reason, e.reason);
    add(header::snoozes, e.snoozes > 0 ? std::to_string(e.snoozes) : "");
    add(header::saga_deadline, e.saga_deadline ? write_instant(*e.saga_deadline) : "");
    add(header::step_deadline, e.step_deadline ? write_instant(*e.step_deadline) : "");
    add(header::waits_since, e.waits_since ? write_instant(*e.waits_since) : "");
    add_trace(m.headers, e.trace);
    m.body = std::move(body);
    return m;
}

}  // namespace skald::core
