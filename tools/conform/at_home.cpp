#include "conform/at_home.hpp"

#include "core/identity.hpp"

namespace skald::conform {
namespace {

using nlohmann::json;

std::string text_of(json const& object, char const* name)
{
    auto const found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

bool take_reports(json const& reports, std::string const& run, std::map<saga_name, told>& all)
{
    bool is_new = false;
    for (auto const& one : reports) {
        auto const key = text_of(one, "key");
        if (!key.starts_with(run)) continue;
        auto& of = all[{text_of(one, "scope"), key}];
        auto& latest = of.reports[text_of(one, "step")];
        if (auto const at = text_of(one, "at"); at >= latest.first) {
            is_new = is_new || latest.second != text_of(one, "status");
            latest = {at, text_of(one, "status")};
        }
        if (text_of(one, "saga") == "stuck") of.ends = "stuck";
    }
    return is_new;
}

}  // namespace

bool take_at_home(core::message const& message, std::string const& run, std::map<saga_name, told>& all)
{
    auto const body = json::parse(message.body, nullptr, false);
    if (message.type == "skald.progress") return take_reports(body, run, all);
    std::string const scope{core::find_header(message.headers, "x-saga-scope").value_or("")};
    if (message.type == "shipped") {
        auto const key = text_of(body, "saga");
        return key.starts_with(run) && all[{scope, key}].events.insert(message.id).second;
    }
    auto const key = core::parse_derived_key(core::find_header(message.headers, "x-idempotency-key").value_or(""));
    if (!key || !key->key.starts_with(run)) return false;
    auto& of = all[{scope, key->key}];
    auto const ends = key->direction == core::direction::back ? "compensated" : "completed";
    of.data = body;
    if (of.ends.ends_with(ends)) return false;
    of.ends = of.ends.empty() ? ends : of.ends + ", and then " + ends;
    return true;
}

}  // namespace skald::conform
