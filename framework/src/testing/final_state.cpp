#include "testing/final_state.hpp"

#include "postgres/literal.hpp"
#include "skald_testing_queries.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace skald::testing::inner {
namespace {

void add_every_row(std::vector<section>& all, node& at)
{
    std::string table;
    for (auto& [name, line] : at.database().every_row()) {
        if (std::exchange(table, name) != name) all.push_back({at.name() + ": " + name, {}});
        all.back().lines.push_back(line);
    }
}

section published(simulation& w)
{
    auto const services = w.services();
    std::set<std::string> lines;
    for (auto const& m : w.sent())
        // To a service's handler as well: what comes of it is in its tables.
        if (std::ranges::find(services, m.destination.substr(0, m.destination.find(".on."))) == services.end())
            lines.insert(m.id + " to " + m.destination + ": " + m.body);
    return {"published", {lines.begin(), lines.end()}};
}

std::map<std::string, std::vector<std::string>> by_title(std::vector<section> const& all)
{
    std::map<std::string, std::vector<std::string>> sorted;
    for (auto const& one : all) {
        auto lines = one.lines;
        std::ranges::sort(lines);
        sorted[one.title] = std::move(lines);
    }
    return sorted;
}

void add_lines(std::string& text, char sign, std::vector<std::string> const& lines)
{
    constexpr std::size_t lines_max = 20;
    for (std::size_t i = 0; i < std::min(lines.size(), lines_max); ++i)
        text.append("    ").append(1, sign).append(1, ' ').append(lines[i]).append(1, '\n');
    if (lines.size() > lines_max)
        text.append("    ").append(1, sign).append(" ... and " + std::to_string(lines.size() - lines_max) + " more\n");
}

}  // namespace

std::vector<section> effects_of(simulation& w, std::vector<effect> const& named)
{
    std::vector<section> all;
    all.reserve(named.size() + w.outside.size());
    for (auto const& one : named)
        all.push_back({one.service + ": " + one.sql, w.service(one.service).database().ask(one.sql)});
    if (named.empty())
        for (auto const& name : w.services()) add_every_row(all, w.service(name));
    for (auto const& one : w.outside) all.push_back({"outside: " + one.name, one.read()});
    return all;
}

std::vector<section> to_be_restored(simulation const& w)
{
    std::vector<section> all;
    all.reserve(w.outside.size());
    for (auto const& one : w.outside)
        all.push_back({"outside: " + one.name, one.restored ? one.restored() : one.read()});
    return all;
}

final_state final_state_of(simulation& w, std::vector<effect> const& named)
{
    final_state e;
    for (auto const& name : w.services()) {
        auto& at = w.service(name);
        for (auto const& row : at.database().run(testing_queries::state{.calls = at.calls()})) {
            auto const title = name + ": " + row["kind"].c_str();
            if (e.state.empty() || e.state.back().title != title) e.state.push_back({title, {}});
            e.state.back().lines.emplace_back(row["line"].c_str());
        }
    }
    e.effects = effects_of(w, named);
    e.effects.push_back(published(w));
    return e;
}

// Its steps may have started others, there or in another service.
std::string status_of(final_state const& e, std::string_view definition)
{
    std::string start;
    if (!definition.empty()) start.append(proved_key).append(1, ' ').append(definition).append(": ");
    for (auto const& one : e.state)
        if (one.title.ends_with(": saga"))
            for (auto const& line : one.lines)
                if (line.starts_with(start)) return line.substr(line.rfind(' ') + 1);
    return {};
}

bool is_completed(final_state const& e, std::string_view service, std::string_view handler)
{
    auto const title = std::string{service} + ": record";
    auto const completed = ':' + std::string{handler} + " completed";
    auto const says_so = [&](std::string const& line) { return line.find(completed) != std::string::npos; };
    return std::ranges::any_of(
        e.state, [&](section const& one) { return one.title == title && std::ranges::any_of(one.lines, says_so); });
}

std::string without_handler(simulation& w)
{
    constexpr std::string_view on = ".on.";
    auto const services = w.services();
    for (auto const& m : w.sent()) {
        auto const at = m.destination.find(on);
        if (at == std::string::npos) continue;
        auto const service = m.destination.substr(0, at);
        bool const is_here = std::ranges::find(services, service) != services.end();
        if (is_here && !w.hosts_handler(service, m.destination.substr(at + on.size()))) return m.destination;
    }
    return {};
}

std::vector<unfinished_step> unfinished_steps(simulation& w)
{
    std::vector<unfinished_step> all;
    for (auto const& name : w.services())
        for (auto const& row : w.service(name).database().session().run(std::string{testing_queries::unfinished}))
            all.push_back({row["step"].c_str(), row["status"].c_str(), row["error"].c_str()});
    return all;
}

std::string errors_of(simulation& w)
{
    std::string text;
    for (auto const& one : unfinished_steps(w)) text.append("  " + one.step + ": " + one.error + '\n');
    return text;
}

std::string parked_in(simulation& w)
{
    std::string text;
    for (auto const& name : w.services()) {
        for (auto const& row : w.service(name).database().session().run(std::string{testing_queries::parked_errors})) {
            text.append("  ").append(row["step"].c_str()).append(" in ").append(name).append(": ");
            text.append(row["reason"].c_str()).append(": ").append(row["error"].c_str()).append(1, '\n');
        }
    }
    return text;
}

std::string difference(std::vector<section> const& expected, std::vector<section> const& found)
{
    auto const wanted = by_title(expected);
    auto const there = by_title(found);
    std::set<std::string> titles;
    for (auto const& [title, lines] : wanted) titles.insert(title);
    for (auto const& [title, lines] : there) titles.insert(title);
    std::string text;
    for (auto const& title : titles) {
        auto const lines_of = [&title](auto const& all) {
            auto const it = all.find(title);
            return it == all.end() ? std::vector<std::string>{} : it->second;
        };
        auto const a = lines_of(wanted);
        auto const b = lines_of(there);
        if (a == b) continue;
        std::vector<std::string> missing, extra;
        std::ranges::set_difference(a, b, std::back_inserter(missing));
        std::ranges::set_difference(b, a, std::back_inserter(extra));
        text.append("  ").append(title).append(1, '\n');
        add_lines(text, '-', missing);
        add_lines(text, '+', extra);
    }
    return text;
}

std::string difference(final_state const& expected, final_state const& found)
{
    return difference(expected.effects, found.effects) + difference(expected.state, found.state);
}

}  // namespace skald::testing::inner
