// A delivery for a service: headers, one on a line, an empty line and a body. Whatever they are, they are one envelope,
// one order, one plan, or a reason why not; and what was read and written again is read as the same.
#include <skald/detail/data.hpp>
#include <skald/errors.hpp>

#include <string>

#include "core/command.hpp"
#include "core/envelope.hpp"
#include "core/recorded_delivery.hpp"
#include "demand.hpp"

using namespace skald;
using skald::fuzz::demand;

namespace {

core::message read_lines(std::string_view rest)
{
    core::message m;
    m.id = "m";
    while (!rest.empty() && !rest.starts_with('\n')) {
        auto line = fuzz::take_until(rest, '\n');
        auto const name = fuzz::take_until(line, ':');
        if (line.starts_with(' ')) line.remove_prefix(1);
        if (name == "type") m.type = line;
        else m.headers.emplace_back(name, line);
    }
    if (!rest.empty()) rest.remove_prefix(1);
    m.body = rest;
    return m;
}

void check_envelope(core::message const& m)
{
    auto const read = core::read_envelope(m);
    if (auto const* const refused = std::get_if<core::refusal>(&read)) {
        demand(!refused->why.empty(), "what is refused has a reason");
        return;
    }
    auto const& e = std::get<core::envelope>(read);
    demand(e.itinerary.position.index < e.itinerary.steps.size(), "the position is on the plan");
    demand(e.fencing_token() > 0, "a turn is counted from 1");
    auto const written = core::write_message(e, m.body);
    auto const again = core::read_envelope(written);
    demand(std::holds_alternative<core::envelope>(again), "what was written can be read");
    auto const twice = core::write_message(std::get<core::envelope>(again), m.body);
    demand(twice.headers == written.headers && twice.type == written.type && twice.id == written.id,
           "what was written is read as the same");
}

void check_itinerary(core::message const& m)
{
    auto const text = core::find_header(m.headers, core::header::itinerary);
    if (!text) return;
    auto const plan = core::parse_itinerary(*text);
    if (!plan) return;
    auto const again = core::parse_itinerary(plan->text());
    demand(again && *again == *plan, "a plan that was written is read as the same");
}

void check_order(std::string_view body)
{
    auto const read = core::read_command(body);
    if (auto const* const bad = std::get_if<core::bad_command>(&read)) {
        demand(!bad->why.empty(), "an order that is refused has a reason");
        return;
    }
    auto const again = core::read_command(std::get<core::command>(read).text);
    demand(std::holds_alternative<core::command>(again), "an order that is passed on can be read");
}

void check_body(std::string_view body)
try {
    auto const text = detail::parse_checked(body).dump();
    demand(detail::parse_checked(text).dump() == text, "data that was written is read as the same");
}
catch (data_error const& error) {
    demand(error.what()[0] != '\0', "data that is refused has a reason");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
    auto const m = read_lines(fuzz::text_of(data, size));
    check_envelope(m);
    check_itinerary(m);
    check_order(m.body);
    check_body(m.body);
    try {
        core::read_recorded(m.body);
    }
    catch (data_error const&) {
    }
    return 0;
}
