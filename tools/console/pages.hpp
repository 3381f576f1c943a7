// The pages: each reads what it shows, and is a whole page without the script.
#pragma once

#include "page.hpp"

#include <string>
#include <string_view>

namespace skald::console {

response sagas_page(context const& with);
/// The list of sagas, for programs, and where it is.
response sagas_as_json(context const& with);
inline constexpr std::string_view path_of_json{"/sagas.json"};
/// What it answers to a filter that can't be.
response refused_as_json(std::string const& why);

response saga_page(context const& with);
response parked_page(context const& with);
response parked_one_page(context const& with);
response outbox_page(context const& with);
response steps_page(context const& with);
response versions_page(context const& with);
response services_page(context const& with);
response audit_page_of(context const& with);

/// What an act would do, and its confirmation: of what a link names, and of what was chosen in a list, which may be too
/// much for a link. Then the act (acts.hpp).
response act_page(context const& with);
response act_on_chosen(context const& with);
response act(context const& with);

/// A call that is in doubt, and what an operator says for the other side: as `skald saga resolve`.
response resolve_page(context const& with);
response resolve(context const& with);

}  // namespace skald::console
