// Outbox, steps and services: figures of each database.
#include "admin/saga_versions.hpp"
#include "pages.hpp"
#include "postgres/literal.hpp"
#include "skald_console_queries.hpp"
#include "table.hpp"
#include "words.hpp"

#include <pqxx/pqxx>

namespace skald::console {
namespace {

using postgres::filled_in;

constexpr std::int64_t sagas_examined_max = 1'000;
constexpr std::int64_t messages_examined_max = 10'000;

std::string age(pqxx::field const& seconds)
{
    return duration(std::chrono::seconds{seconds.as<std::int64_t>()});
}

// `section(connection)` of each service that answers.
template <class Section>
markup each_service(context const& with, std::string const& what_is_missing, Section const& section,
                    bool is_live = true)
{
    markup sections;
    for (auto const& db : with.all.all()) {
        try {
            auto const inside = db->ask([&](postgres::connection& c) { return section(*db, c); });
            sections += element("section", {{"class", "card"}}, element("h2", db->service()) + inside);
        }
        catch (away const& why) {
            sections += element("section", {{"class", "card"}},
                                element("h2", db->service()) + missing_note({why}, what_is_missing));
        }
    }
    return is_live ? element("div", {{"id", "live"}}, sections) : element("div", sections);
}

markup outbox_of(postgres::connection& c)
{
    auto const total = c.run(filled_in(queries::outbox_glance{.examined_max = messages_examined_max}))[0];
    auto const waiting = total["messages"].as<std::int64_t>();
    if (waiting == 0) return styled("p", "soft", "Empty: everything has been sent.");
    bool const is_all = waiting < messages_examined_max;
    markup said = styled(
        "p", "sentence",
        (is_all ? counted(waiting, "message waits", "messages wait")
                : number(waiting) + "+ messages wait, of which the first " + number(waiting) + " were looked at") +
            ", the oldest for " + age(total["oldest_seconds"]) + ".");
    std::vector<std::vector<markup>> rows;
    for (auto const& row : c.run(filled_in(queries::outbox_refused{.examined_max = messages_examined_max})))
        rows.push_back(
            {row[0].c_str(), styled("span", "no", row[1].c_str()), number(row[2].as<std::int64_t>()), row[3].c_str()});
    if (!rows.empty())
        said += table("Refused by the broker", {{"to"}, {"why"}, {"messages", true}, {"attempts", true}}, rows);
    rows.clear();
    for (auto const& row : c.run(filled_in(queries::waiting_messages{.rows_max = 50}))) {
        markup key = element("code", row["key"].c_str());
        if (*row["home"].c_str() != '\0')
            key =
                element("a", {{"href", saga_link(row["home"].c_str(), row["scope"].c_str(), row["key"].c_str())}}, key);
        rows.push_back({row["type"].c_str(), row["destination"].c_str(), key, row["attempts"].c_str(),
                        age(row["age_seconds"]), styled("span", "no", row["error"].c_str())});
    }
    return said + table("The first to leave",
                        {{"message"}, {"to"}, {"saga"}, {"attempts", true}, {"age", true}, {"refused because"}}, rows);
}

markup rates_of(postgres::connection& c)
{
    std::vector<std::vector<markup>> rows;
    for (auto const& row : c.run(filled_in(queries::latest_rate{.examined_max = sagas_examined_max}))) {
        auto const sagas = row["sagas"].as<std::int64_t>();
        auto const seconds = row["seconds"].as<double>();
        auto const rate = seconds > 0 ? static_cast<std::int64_t>(static_cast<double>(sagas) * 3'600 / seconds) : 0;
        rows.push_back({row["definition"].c_str(), number(sagas), number(row["compensated"].as<std::int64_t>()),
                        sagas > 1 && rate > 0 ? number(rate) : "",
                        duration(std::chrono::milliseconds{row["median_ms"].as<std::int64_t>()}),
                        duration(std::chrono::milliseconds{row["p95_ms"].as<std::int64_t>()})});
    }
    if (rows.empty()) return {};
    return table("The latest sagas that ended here",
                 {{"definition"},
                  {"sagas", true},
                  {"compensated", true},
                  {"per hour", true},
                  {"median", true},
                  {"95 % within", true}},
                 rows);
}

markup steps_of(postgres::connection& c)
{
    std::vector<std::vector<markup>> rows;
    for (auto const& row : c.run(filled_in(queries::latest_steps{.examined_max = sagas_examined_max}))) {
        auto const rejected = row["rejected"].as<std::int64_t>(), retried = row["retried"].as<std::int64_t>();
        rows.push_back({row["step"].c_str(), row["service"].c_str(), number(row["completed"].as<std::int64_t>()),
                        rejected == 0 ? markup{"0"} : styled("span", "no", number(rejected)),
                        retried == 0 ? markup{"0"} : styled("span", "undo", number(retried)), row["attempts"].c_str()});
    }
    if (rows.empty()) return {};
    return table(
        "Their steps",
        {{"step"}, {"service"}, {"done", true}, {"rejected", true}, {"tried again", true}, {"most attempts", true}},
        rows);
}

markup held_up(postgres::connection& c)
{
    std::vector<std::vector<markup>> rows;
    for (auto const& row : c.run(filled_in(queries::held_up_steps{.examined_max = sagas_examined_max})))
        rows.push_back(
            {row["step"].c_str(), row["service"].c_str(),
             styled("span", std::string{row["status"].c_str()} == "retrying" ? "undo" : "no", row["status"].c_str()),
             number(row["sagas"].as<std::int64_t>()), row["attempts"].c_str(), row["error"].c_str()});
    if (rows.empty()) return {};
    return table("Steps that hold sagas up",
                 {{"step"}, {"service"}, {"is"}, {"sagas", true}, {"most attempts", true}, {"latest error"}}, rows);
}

markup limits(postgres::connection& c)
{
    std::vector<std::vector<markup>> rows;
    for (auto const& row : c.run(std::string{queries::contention}))
        rows.push_back({row["step"].c_str(),
                        row["takes_turns"].as<bool>() ? "one at a time in this database"
                                                      : counted(row["lanes"].as<std::int64_t>(), "lane", "lanes"),
                        row["batch"].c_str(), number(row["conflicts"].as<std::int64_t>()), row["reason"].c_str(),
                        shown_time(row["changed_at"].c_str())});
    if (rows.empty()) return {};
    return table("Limits that contention has put on its steps",
                 {{"step"}, {"runs in"}, {"batch", true}, {"conflicts", true}, {"why"}, {"since"}}, rows);
}

markup sessions_of(postgres::connection& c)
{
    std::vector<std::vector<markup>> rows;
    for (auto const& row : c.run(std::string{queries::sessions}))
        rows.push_back({row["name"].c_str(), row["host"].c_str(), row["sessions"].c_str(),
                        shown_time(row["since"].c_str()), shown_time(row["last_sign"].c_str()),
                        row["waiting_for_locks"].c_str()});
    if (rows.empty()) return styled("p", "note no", "No process of Skald is connected to this database.");
    return table(
        "Who is connected",
        {{"session"}, {"from"}, {"sessions", true}, {"since"}, {"last sign of life"}, {"wait for locks", true}}, rows);
}

// Of each process, since each has its own. Nothing while all are well.
markup ill_dependencies(postgres::connection& c)
{
    std::vector<std::vector<markup>> rows;
    for (auto const& row : c.run(std::string{queries::breakers})) {
        bool const is_alive = row["is_alive"].as<bool>();
        auto const tries_at = std::string{row["tries_at"].c_str()};
        rows.push_back(
            {row["dependency"].c_str(), row["owner"].c_str(),
             is_alive ? styled("span", "no", row["state"].c_str()) : styled("span", "soft", "says nothing any more"),
             row["why"].c_str(), number(row["ok"].as<std::int64_t>()), number(row["failed"].as<std::int64_t>()),
             number(row["slow"].as<std::int64_t>()), shown_time(row["since"].c_str()),
             is_alive ? shown_time(tries_at) : std::string{}});
    }
    if (rows.empty()) return {};
    return table("Dependencies that are ill",
                 {{"called"},
                  {"by"},
                  {"breaker"},
                  {"why"},
                  {"answered", true},
                  {"failed", true},
                  {"slow", true},
                  {"since"},
                  {"is tried at"}},
                 rows);
}

// A distribution adds its own version to that of PostgreSQL.
std::string first_word(std::string const& text)
{
    return text.substr(0, text.find(' '));
}

// Of a count that ends at ten thousand.
std::string bounded(pqxx::field const& count)
{
    auto const n = count.as<std::int64_t>();
    return number(n) + (n < 10'000 ? "" : "+");
}

markup service_of(postgres::connection& c)
{
    auto const row = c.run(std::string{queries::about_service})[0];
    auto const entry = [](std::string_view name, markup const& value) {
        return element("div", element("dt", name) + element("dd", value));
    };
    return element("dl", {{"class", "about"}},
                   entry("PostgreSQL", first_word(row["server"].c_str())) + entry("database", row["database"].c_str()) +
                       entry("size", row["size"].c_str()) +
                       entry("migrations", markup{row["migrations"].c_str()} + ", to " + row["newest"].c_str()) +
                       entry("clock", shown_time(row["now"].c_str())) +
                       entry("waits in the outbox", bounded(row["waiting"])) +
                       entry("parked", bounded(row["parked"]))) +
           ill_dependencies(c) + sessions_of(c);
}

// "after reserve 101, at charge (retrying) 19", and of how many, if that is not all.
std::string places_of(nlohmann::json const& version)
{
    auto const text = admin::places_in_words(version);
    if (version["may_be_removed"].get<bool>()) return "none: what only it needs may be removed";
    return version["is_home"].get<bool>() ? text : "none was started here: see its home";
}

markup versions_of(postgres::connection& c)
{
    auto const found = admin::saga_versions(c);
    std::vector<std::vector<markup>> rows;
    for (auto const& one : found["versions"]) {
        auto const sagas = one["sagas"].get<std::int64_t>(), stuck = one["stuck"].get<std::int64_t>();
        auto const name = one["definition"].get<std::string>();
        markup oldest;
        if (sagas > 0) {
            auto const key = one["oldest"].get<std::string>();
            auto const age = std::chrono::seconds{one["oldest_seconds"].get<std::int64_t>()};
            oldest = element("span", element("a", {{"href", link("/", {{"key", key}})}}, key) + markup{" "} +
                                         styled("span", "soft", duration(age)));
        }
        rows.push_back({element("a", {{"href", link("/", {{"definition", name}})}}, name), one["version"].dump(),
                        number(sagas), stuck == 0 ? markup{"0"} : styled("span", "no", number(stuck)), oldest,
                        places_of(one)});
    }
    if (rows.empty()) return styled("p", "soft", "No saga was started here, and no step of one is hosted.");
    return table("Versions of definitions, the newest first",
                 {{"definition"}, {"version", true}, {"under way", true}, {"stuck", true}, {"oldest"}, {"where"}},
                 rows);
}

}  // namespace

response versions_page(context const& with)
{
    return page(with, "Versions", "Steps",
                element("h1", "Versions") +
                    styled("p", "soft",
                           "How many sagas of which version are under way, at each home. All are counted, so this page "
                           "is not asked for again by itself.") +
                    each_service(
                        with, "What was started there is not shown.",
                        [](database&, postgres::connection& c) { return versions_of(c); }, false));
}

response outbox_page(context const& with)
{
    return page(
        with, "Outbox", "Outbox",
        element("h1", {{"class", "quiet"}}, "Outbox") +
            styled("p", "soft", "Messages that the broker has not confirmed yet. They stay here until it has.") +
            each_service(with, "Its messages wait all the same.",
                         [](database&, postgres::connection& c) { return outbox_of(c); }));
}

response steps_page(context const& with)
{
    return page(with, "Steps", "Steps",
                element("h1", {{"class", "quiet"}}, "Steps") +
                    styled("p", "soft",
                           "Of the latest 1,000 sagas that ended, and the oldest 1,000 that have not, at each home.") +
                    element("p", element("a", {{"href", "/versions"}}, "How many of which version are under way")) +
                    each_service(with, "Its steps are not shown.", [](database&, postgres::connection& c) {
                        auto const inside = held_up(c) + limits(c) + rates_of(c) + steps_of(c);
                        return inside.empty() ? styled("p", "soft", "No saga was started here, and no step is limited.")
                                              : inside;
                    }));
}

response services_page(context const& with)
{
    return page(with, "Services", "Services",
                element("h1", {{"class", "quiet"}}, "Services") +
                    each_service(with, "Its steps wait; nothing is lost.",
                                 [](database&, postgres::connection& c) { return service_of(c); }));
}

}  // namespace skald::console
