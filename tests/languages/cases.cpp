#include "languages/cases.hpp"

#include "core/instant.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>

namespace skald::test {

using namespace std::chrono_literals;
using core::direction;
using nlohmann::json;
using ports::claim_result;

namespace {

constexpr char const* wide = "\u00e4\u20ac\U0001f600";  // two, three and four bytes

std::chrono::milliseconds milliseconds_of(json const& j, char const* name, std::chrono::milliseconds missing)
{
    return j.contains(name) ? std::chrono::milliseconds{j.at(name).get<std::int64_t>()} : missing;
}

step_kind kind_of(std::string const& name)
{
    return name == "compensatable" ? step_kind::compensatable
           : name == "pivot"       ? step_kind::pivot
                                   : step_kind::retriable;
}

}  // namespace

int cases_wanted(int many)
{
    auto const* const said = std::getenv("PARTICIPANT_CASES");
    return said != nullptr ? std::atoi(said) : many;
}

core::itinerary random_cases::itinerary()
{
    core::itinerary made;
    auto const count = one_in(50) ? random_.number(1, core::steps_max) : random_.number(1, 6);
    auto const first_retriable = random_.number(0, count);
    bool const has_pivot = first_retriable > 0 && random_.coin();
    for (std::size_t i = 0; i < count; ++i) {
        auto const kind = i >= first_retriable                    ? step_kind::retriable
                          : has_pivot && i + 1 == first_retriable ? step_kind::pivot
                                                                  : step_kind::compensatable;
        made.steps.push_back({(one_in(20) ? random_.name().substr(0, 45) : "s") + std::to_string(i),
                              any_of("payments", "payments", "payments", "orders", "shipping"), kind});
    }
    made.position.index = random_.number(0, count - 1);
    auto const here = std::ranges::find(made.steps, this_service, &core::itinerary_step::service);
    if (here != made.steps.end() && !one_in(10)) {
        while (made.current().service != this_service) made.position.index = random_.number(0, count - 1);
    }
    if (made.current().kind == step_kind::compensatable && one_in(3)) made.position.direction = direction::back;
    return made;
}

std::string random_cases::time()
{
    auto const around = core::instant{std::chrono::sys_days{std::chrono::January / 1 / 2026}};
    auto const away = std::chrono::microseconds{random_.number(0, one_in(2) ? 10'000'000 : 2'000'000'000)};
    return core::write_instant(random_.coin() ? around + away : around - away);
}

std::string random_cases::reason()
{
    if (one_in(3)) return {};
    if (!one_in(20)) return "out of " + random_.text("abc xyz:", 0, 20);
    std::string text;
    for (auto n = random_.number(100, 400); n > 0; --n) text += random_.coin() ? wide : "a";
    return text;
}

core::envelope random_cases::envelope()
{
    core::envelope e;
    e.saga = {any_of("", "", "tenant", wide),
              one_in(10) ? "k:" + random_.text("kK:~ ", 1, 170) : random_.text("kxyz", 1, 4)};
    e.definition = any_of("place-order", "place-order", "book-trip");
    e.version = one_in(4) ? static_cast<int>(random_.number(1, 5)) : 1;
    e.itinerary = itinerary();
    e.home = any_of("orders", "orders", "payments");
    if (e.itinerary.position.direction == direction::back || one_in(10)) e.reason = core::storable_text(reason());
    if (one_in(3)) e.attempt = static_cast<int>(random_.number(1, 9));
    if (one_in(3)) e.snoozes = static_cast<int>(random_.number(0, 9));
    if (one_in(40)) e.snoozes = static_cast<int>(random_.number(999'999'990, 1'000'000'010));
    if (one_in(4)) e.saga_deadline = core::parse_instant(time());
    if (one_in(6)) e.step_deadline = core::parse_instant(time());
    if (one_in(6)) e.waits_since = core::parse_instant(time());
    if (one_in(4)) e.trace.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    if (one_in(8)) e.trace.tracestate = "a=b";
    return e;
}

core::message random_cases::message(core::envelope const& e)
{
    auto m = core::write_message(e, R"({"id":"1"})");
    if (one_in(4)) spoil(m);
    return m;
}

// One header is changed, lost or added.
void random_cases::spoil(core::message& m)
{
    if (one_in(20)) {
        m.type = any_of("", "s0", "s1", "s2", "else");
        return;
    }
    auto const extra = any_of("x-snoozes", "x-saga-deadline", "x-step-deadline", "skald-waits-since", "traceparent",
                              "traceparent", "tracestate", "x-saga-reason", "x-another", "x-saga-itinerary");
    if (!core::find_header(m.headers, extra) && one_in(3)) m.headers.emplace_back(extra, "");
    auto const found = std::ranges::find(m.headers, extra, &core::header_list::value_type::first);
    auto& [name, value] = found != m.headers.end() ? *found : m.headers[random_.number(0, m.headers.size() - 1)];
    bool const is_ascii = std::ranges::all_of(value, [](char ch) { return ch >= 0; });
    switch (is_ascii ? random_.number(0, 7) : 0) {
    case 0: name += "-lost"; break;
    case 1: value.clear(); break;
    case 2: value.insert(random_.number(0, value.size()), any_of(" ", "x", "-", "0", "/", "=", "@", ":", "Z")); break;
    case 3:
        if (!value.empty()) value.erase(random_.number(0, value.size() - 1), 1);
        break;
    case 4:
        value = any_of("0", "1", "-1", "-0", "007", "2000000000", "2000000001", "99999999999999999999", "+1", " 1",
                       "1 ", "1.0", "one");
        break;
    case 5:
        value = any_of("2026-02-29T00:00:00.000000Z", "2024-02-29T23:59:59.999999Z", "2026-13-01T00:00:00.000000Z",
                       "2026-01-32T00:00:00.000000Z", "2026-01-01T24:00:00.000000Z", "2026-01-01T00:60:00.000000Z",
                       "2026-01-01T00:00:60.000000Z", "0000-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z",
                       "2026-01-01T00:00:00Z", "2026-01-01 00:00:00.000000Z", "1900-02-29T00:00:00.000000Z",
                       "2000-02-29T00:00:00.000000Z", "2026-00-01T00:00:00.000000Z", "2026-01-00T00:00:00.000000Z");
        break;
    case 6:
        value =
            any_of("forward 1/1 s0@payments=pivot", "forward 1/1 s0@payments=pivot s1@payments=retriable",
                   "back 1/1 s0@payments=compensatable", "back 1/1 s0@payments=pivot",
                   "forward 1/2 s0@payments=pivot s1@payments=pivot", "forward 01/1 s0@payments=pivot",
                   "forward 1/65 s0@payments=pivot", "forward 2/1 s0@payments=pivot", "forward 1/1  s0@payments=pivot",
                   "forward 1/2 s0@payments=retriable s1@payments=compensatable", "forward 1/1", "forward 1/1 ",
                   "forward 1/2 s0@payments=pivot s0@payments=retriable", "sideways 1/1 s0@payments=pivot",
                   "forward 1/1 s0@payments=pivot ", "forward 1/1 s0@payments=pivots", "forward 1/1 S0@payments=pivot");
        break;
    case 7:
        value = any_of("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                       "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                       "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                       "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                       "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                       "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd-01", "k:s0",
                       "k:s0.compensate", ":s0", "k:", "k", "k:s0.compensate.compensate");
        break;
    }
}

std::optional<json> random_cases::hosted(core::envelope const& e)
{
    if (one_in(15)) return std::nullopt;
    static constexpr std::array names{"compensatable", "pivot", "retriable"};
    auto const kind = one_in(30) ? random_.number(0, 2) : static_cast<std::size_t>(e.itinerary.current().kind);
    json made{{"kind", names[kind]}};
    if (random_.coin()) made["version"] = one_in(10) ? random_.number(1, 5) : 5;
    if (random_.coin()) made["attempts"] = random_.number(1, 10);
    if (random_.coin()) made["first_ms"] = random_.number(0, 1'000);
    if (random_.coin()) made["longest_ms"] = one_in(10) ? 99'999'999'999'999 : random_.number(0, 40'000);
    if (kind != 2 && one_in(3)) made["deadline_ms"] = one_in(10) ? 31'556'952'000'000 : random_.number(0, 100'000);
    return made;
}

ports::claim_answer random_cases::claim(core::envelope const& e)
{
    auto const number = static_cast<int>(random_.number(1, 10));
    bool const is_back = e.itinerary.position.direction == direction::back;
    switch (random_.number(0, 15)) {
    case 0: return {claim_result::duplicate, number, false, {}, {}};
    case 1: return {claim_result::in_flight, 0, false, {}, {}};
    case 2: return {claim_result::mismatch, number, false, {}, {}};
    case 3: return {claim_result::mismatch, number, false, ports::cancel_cause::other_home, "elsewhere"};
    case 4: return {claim_result::cancelled, number, false, {}, {}};
    case 5: return {claim_result::paused, 0, false, {}, {}};
    case 6: return {claim_result::closed, 0, false, {}, {}};
    case 7:
    case 8:
        if (is_back) return {claim_result::cancelled, 1, true, ports::cancel_cause::nothing_to_undo, "nothing to undo"};
        if (e.itinerary.past_pivot()) break;
        return random_.coin() ? ports::claim_answer{claim_result::cancelled, number, true, ports::cancel_cause::command,
                                                    "ada said so " + reason()}
                              : ports::claim_answer{claim_result::cancelled, number, true,
                                                    ports::cancel_cause::deadline, "deadline passed"};
    case 9:
    case 10:
    case 11: return {claim_result::retry, number, true, {}, {}};
    default: break;
    }
    return {claim_result::fresh, 1, true, {}, {}};
}

json random_cases::ended(core::envelope const& e)
{
    bool const may_reject = e.itinerary.position.direction == direction::forward && !e.itinerary.past_pivot();
    switch (random_.number(0, 9)) {
    case 0:
    case 1:
    case 2: return {{"end", "done"}};
    case 3: return {{"end", "done"}, {"version", random_.number(1, 9)}};
    case 4:
        if (may_reject) return {{"end", "rejected"}, {"why", core::storable_text(reason(), 5'000)}};
        return {{"end", "done"}};
    case 5:
        return {{"end", "snoozed"},
                {"wait_ms", one_in(10) ? 99'999'999'999'999 : static_cast<std::int64_t>(random_.number(0, 100'000))}};
    case 6:
    case 7: return {{"end", "failed"}, {"why", "it broke " + reason()}};
    case 8: return {{"end", "unrunnable"}, {"reason", "malformed"}, {"why", "not like this " + reason()}};
    default:
        return {{"end", "unrunnable"},
                {"reason", any_of("transaction_ended", "body_missing", "body_damaged")},
                {"why", "not like that"}};
    }
}

runtime::registry registry_of(core::envelope const& e, std::optional<json> const& hosted,
                              std::chrono::milliseconds deploy_wait)
{
    runtime::registry made{deploy_wait};
    if (!hosted) return made;
    runtime::registered_step step;
    step.kind = kind_of(hosted->at("kind"));
    step.version = hosted->value("version", 1);
    step.options.retry = {hosted->value("attempts", 8), milliseconds_of(*hosted, "first_ms", 200ms),
                          milliseconds_of(*hosted, "longest_ms", 30'000ms),
                          milliseconds_of(*hosted, "deadline_ms", 0ms)};
    made.add(e.definition, e.itinerary.current().name, std::move(step));
    return made;
}

std::optional<runtime::step_result> result_of(json const& ended)
{
    if (ended.is_null()) return std::nullopt;
    auto const end = ended.at("end").get<std::string>();
    auto const why = ended.value("why", "");
    if (end == "done") return runtime::done{"{}", {}, {}, ended.value("version", 0)};
    if (end == "rejected") return runtime::rejected{why};
    if (end == "snoozed") return runtime::snoozed{milliseconds_of(ended, "wait_ms", 0ms)};
    if (end == "failed") return runtime::failed{why};
    static constexpr std::array<std::string_view, 4> reasons{"malformed", "transaction_ended", "body_missing",
                                                             "body_damaged"};
    return runtime::unrunnable{*std::ranges::find(reasons, ended.at("reason").get_ref<std::string const&>()), why};
}

json headers_of(core::header_list const& headers)
{
    auto made = json::object();
    for (auto const& [name, value] : headers) made[name] = value;
    return made;
}

planted_fault::planted_fault(pqxx::connection& c, std::string const& function, std::string const& from,
                             std::string const& to)
    : c_{c}
{
    pqxx::nontransaction tx{c_};
    was_ =
        tx.exec(
              "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'skald'::regnamespace AND proname = " +
              tx.quote(function))[0][0]
            .c_str();
    auto const at = was_.find(from);
    if (at == std::string::npos) throw std::logic_error{"skald." + function + " has no `" + from + '`'};
    tx.exec(std::string{was_}.replace(at, from.size(), to));
}

planted_fault::~planted_fault()
{
    pqxx::nontransaction{c_}.exec(was_);
}

}  // namespace skald::test
