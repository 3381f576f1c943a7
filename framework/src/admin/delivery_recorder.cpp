#include "admin/delivery_recorder.hpp"

#include "postgres/literal.hpp"
#include "skald_metrics_queries.hpp"

#include <pqxx/pqxx>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace skald::admin {
namespace {

// What a crash of the server loses here, a kill of the process loses too.
constexpr std::string_view begin_recording{"BEGIN; SET LOCAL statement_timeout = 1000; SET LOCAL lock_timeout = 50; "
                                           "SET LOCAL synchronous_commit = off;"};

std::string text_of(std::map<runtime::deliveries_seen::step, runtime::deliveries_seen::count> const& counts)
{
    std::vector<std::string> scopes, keys, steps, homes;
    std::vector<std::int64_t> more, duplicates;
    for (auto const& [step, count] : counts) {
        scopes.push_back(step.scope);
        keys.push_back(step.key);
        steps.push_back(step.name);
        homes.push_back(step.home);
        more.push_back(count.more);
        duplicates.push_back(count.duplicates);
    }
    return postgres::filled_in(metrics_queries::record_deliveries{
        .scopes = scopes, .keys = keys, .steps = steps, .homes = homes, .more = more, .duplicates = duplicates});
}

}  // namespace

void record_deliveries(postgres::connection& c, runtime::deliveries_seen& seen)
{
    auto const counts = seen.take();
    if (counts.empty()) return;
    try {
        c.run(std::string{begin_recording} + text_of(counts) + "; COMMIT");
    }
    catch (pqxx::sql_error const&) {
        seen.put_back(counts);
        c.run("ROLLBACK");
    }
    catch (...) {
        seen.put_back(counts);
        throw;
    }
}

}  // namespace skald::admin
