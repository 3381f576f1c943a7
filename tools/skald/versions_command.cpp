// `skald saga versions`: which versions of which definitions are under way, and what of older ones may be removed.
#include "started.hpp"

#include "admin/explanation.hpp"
#include "admin/saga_versions.hpp"
#include "database.hpp"
#include "table.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cstdint>

namespace skald::tools {
namespace {

using nlohmann::json;

int versions(output const& out)
{
    auto c = connect();
    auto const found = admin::saga_versions(c);
    std::vector<std::vector<std::string>> rows{{"DEFINITION", "VERSION", "UNDER WAY", "STUCK", "OLDEST", "WHERE"}};
    for (auto const& one : found["versions"]) {
        bool const is_none = one["sagas"] == 0;
        auto const age =
            is_none ? std::string{}
                    : fmt::format("{} ({})", one["oldest"].get<std::string>(),
                                  admin::in_words(std::chrono::seconds{one["oldest_seconds"].get<std::int64_t>()}));
        auto const where = one["may_be_removed"].get<bool>() ? "none: what only it needs may be removed"
                           : !one["is_home"].get<bool>()     ? "none was started here: ask at its home"
                                                             : admin::places_in_words(one);
        rows.push_back({one["definition"].get<std::string>(), one["version"].dump(), one["sagas"].dump(),
                        one["stuck"].dump(), age, where});
    }
    out.tell(rows.size() > 1 ? table(rows) : "no saga was started here, and no service hosts a step of one", found);
    return 0;
}

}  // namespace

void add_versions(CLI::App& saga, output& out, choice& chosen)
{
    auto* const command = saga.add_subcommand(
        "versions", "how many sagas of which version are under way, where, since when, and what may be removed");
    out.add_flag(*command);
    command->callback([&out, &chosen] { chosen = [&out] { return versions(out); }; });
}

}  // namespace skald::tools
