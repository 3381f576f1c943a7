// A rehearsal's report as a person reads it.
#include "rehearsal/rehearsal.hpp"

#include "core/text.hpp"

#include <fmt/format.h>

#include <array>
#include <sstream>

namespace skald::rehearsal {
namespace {

using nlohmann::json;

std::string shown(json const& value)
{
    return core::visible_text(value.is_string() ? value.get<std::string>() : value.dump());
}

using sentences = std::array<char const*, 2>;

template <std::size_t Size>
std::string one_of(std::array<sentences, Size> const& all, std::string const& name)
{
    for (auto const& [known, text] : all)
        if (name == known) return text;
    return name;
}

// What becomes of the saga if the step ends so.
std::string fate_of(std::string const& saga)
{
    constexpr std::array<sentences, 4> all{{
        {"running", "the saga would go on"},
        {"completed", "the saga would be completed with it"},
        {"compensating", "the saga would compensate"},
        {"compensated", "the saga would be compensated: no other step is left to undo"},
    }};
    return one_of(all, saga);
}

std::string sentence_of(json const& report)
{
    constexpr std::array<sentences, 17> all{{
        {"done", "done: it would be completed"},
        {"started", "started: its first transaction would be committed, and it would go on with its "},
        {"rejected", "rejected"},
        {"snoozed", "snoozed: it would run again later"},
        {"failed", "failed: it would be tried again"},
        {"awaits_deploy", "it would wait for a process that knows its step or its version of the saga"},
        {"attempts_exhausted", "failed for the last time"},
        {"parked", "parked: the saga would be stuck"},
        {"duplicate", "a duplicate: it would not run"},
        {"mismatch", "a mismatch: the key was used before with another body, and it would be parked"},
        {"cancelled", "cancelled: it would not run"},
        {"paused", "paused: it would not run before the saga is resumed"},
        {"closed", "closed: it would not run, and would be parked"},
        {"in_flight", "in flight: another transaction has the step at this moment"},
        {"locked", "it waits for a lock that another session holds"},
        {"unavailable", "the database was away, or refused"},
        {"transaction_ended", "it ran COMMIT or ROLLBACK itself, and would be parked"},
    }};
    auto end = one_of(all, report["ends"].get<std::string>());
    if (report.contains("then")) end += report["then"].get<std::string>();
    return report.contains("saga") ? end + "; " + fate_of(report["saga"].get<std::string>()) : end;
}

// An error of the database has several, one of which points at the place.
void add_lines(std::string& text, std::string const& of)
{
    std::istringstream lines{of};
    for (std::string line; std::getline(lines, line);) text += fmt::format("    {}\n", core::visible_text(line));
}

void add_rows(std::string& text, json const& table)
{
    std::string counts;
    for (auto const* name : {"inserted", "updated", "deleted"})
        if (table[name] > 0) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", shown(table[name]), name);
    text += fmt::format("    {}: {}\n", shown(table["table"]), counts.empty() ? "no rows counted" : counts);
    for (auto const& row : table.value("rows", json::array())) {
        text += fmt::format("      {}", shown(row["op"]));
        if (row.contains("before")) text += fmt::format(" {}", shown(row["before"]));
        if (row.contains("before") && row.contains("after")) text += " ->";
        if (row.contains("after")) text += fmt::format(" {}", shown(row["after"]));
        text += '\n';
    }
    if (table.contains("not_listed"))
        text += fmt::format("      not all writes are listed: {}\n", shown(table["not_listed"]));
}

void add_messages(std::string& text, json const& messages)
{
    for (auto const& m : messages) {
        text += fmt::format("    {} to {}", shown(m["type"]), shown(m["destination"]));
        if (m["delay_ms"] > 0) text += fmt::format(" after {} ms", shown(m["delay_ms"]));
        text += fmt::format(": {}\n", m.contains("body") ? shown(m["body"]) : shown(m["body_hex"]));
    }
}

void add_locks(std::string& text, json const& report)
{
    for (auto const& lock : report["locks"])
        text += fmt::format("    {} on {}\n", shown(lock["mode"]), shown(lock["on"]));
    for (auto const& by : report["waited_for"])
        text += fmt::format("    waited for session {} ({}, {}, {} for {} s): {}\n", shown(by["pid"]),
                            shown(by["application"]), shown(by["role"]), shown(by["state"]),
                            shown(by["transaction_seconds"]), shown(by["query"]));
}

void add_work(std::string& text, json const& report)
{
    text += fmt::format("  took: {:.1f} ms, {:.1f} ms of it in the step\n", report["took_ms"].get<double>(),
                        report["step_ms"].get<double>());
    if (report["tables"].is_null()) text += "  what it would write is not known\n";
    else text += report["tables"].empty() ? "  would write nothing\n" : "  would write:\n";
    for (auto const& table : report["tables"]) add_rows(text, table);
    text += report["messages"].empty() ? "  would send nothing\n" : "  would send:\n";
    add_messages(text, report["messages"]);
}

}  // namespace

std::string in_words(json const& report)
{
    bool const has_run = report.contains("from");
    auto text = has_run ? fmt::format("{} of {}, rehearsed with {}\n", shown(report["key"]),
                                      shown(report["definition"]), shown(report["from"]))
                        : fmt::format("{}, not rehearsed\n", shown(report["key"]));
    for (auto const& note : report["notes"]) text += fmt::format("  note: {}\n", shown(note));
    text += fmt::format("  ends: {}\n", sentence_of(report));
    for (auto const* name : {"reason", "error"})
        if (report.contains(name)) add_lines(text, report[name].get<std::string>());
    if (has_run) add_work(text, report);
    if (!report["locks"].empty() || !report["waited_for"].empty()) text += "  locks:\n";
    add_locks(text, report);
    if (!has_run) return text;
    return text + "  Everything in the transaction was rolled back; what the step does outside it has happened.\n";
}

}  // namespace skald::rehearsal
