#include "audit/facts.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace skald::audit {
namespace {

std::string text_of(nlohmann::json const& fact, char const* member)
{
    auto const& value = fact.at(member);
    return value.is_null() ? std::string{} : value.is_string() ? value.get<std::string>() : value.dump();
}

void add_command(key_facts& to, std::string const& service, nlohmann::json const& fact)
{
    if (text_of(fact, "home") != service) return;  // what other services know of it is not younger than its home's
    auto const action = text_of(fact, "action");
    if (action == "pause") to.paused.insert(service);
    if (action == "close") to.closed.insert(service);
}

}  // namespace

void add_fact(key_facts& to, std::string const& service, std::string_view what, std::string_view fact, std::string at,
              bool is_old)
{
    auto const said = nlohmann::json::parse(fact);
    to.latest = std::max(to.latest, at);
    to.is_old = to.is_old && is_old;
    if (what == "record") {
        to.records.push_back(
            {service, text_of(said, "step"), text_of(said, "status"), std::move(at), text_of(said, "home"), is_old});
    }
    else if (what == "saga") {
        to.sagas.push_back({service, text_of(said, "status"), std::move(at), text_of(said, "itinerary"), is_old,
                            said.at("expires").get<bool>()});
    }
    else if (what == "command") add_command(to, service, said);
    else if (what == "message") {
        to.messages.push_back(
            {service, text_of(said, "id"), text_of(said, "to"), text_of(said, "home"), std::move(at), is_old});
    }
    else if (what == "parked") {
        to.parked.push_back({service, text_of(said, "id"), text_of(said, "step"), text_of(said, "reason"),
                             std::move(at), text_of(said, "home"), is_old});
    }
    else if (what == "busy") to.busy.insert(service);
    else if (what == "not_undone") to.not_undone.emplace_back(service, text_of(said, "step"));
}

}  // namespace skald::audit
