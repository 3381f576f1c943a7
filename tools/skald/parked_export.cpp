// `skald parked export`: writes parked deliveries down, to be delivered again in a test. See docs/recorded.md.
//
// One per line, so that recordings can be joined with cat, cut with head, compared with diff and read by eye, and so
// that this program never holds more than one of them in memory.
#include "core/identity.hpp"
#include "database.hpp"
#include "parked.hpp"

#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <vector>

namespace skald::tools {
namespace {

constexpr int page_max = 500;

struct choice_of_recordings
{
    std::vector<std::string> which;  // numbers, and KEY:STEP
    admin::parked_filter filter;
    bool all{};
};

/// Prints recordings, and counts them; remembers whether anything was refused.
class recorder
{
public:
    explicit recorder(output const& out) : out_{out}, database_{connect()} {}

    void by_id(std::int64_t id)
    {
        if (!print(id)) refuse(fmt::format("there is no parked delivery {} here", id));
    }

    /// Page by page, up to the newest at the start: what is parked meanwhile is left for the next time.
    void all_that_match(admin::parked_filter filter, std::string const& what)
    {
        auto const before = printed_;
        auto const newest = admin::newest_parked(database_).value_or(0);
        filter.limit = page_max;
        for (bool more = true; more;) {
            auto const page = admin::list_parked(database_, filter);
            more = !page["next"].is_null();
            for (auto const& p : page["parked"]) {
                filter.after = p["id"].get<std::int64_t>();
                if (filter.after > newest) more = false;
                else print(filter.after);  // or it was replayed just now, and is no longer parked
            }
        }
        if (printed_ == before) refuse(what);
    }

    int end() const { return is_refused_ ? 1 : 0; }

private:
    bool print(std::int64_t id)
    {
        auto const line = admin::record_parked(database_, id);
        if (!line) return false;
        std::puts(line->c_str());
        ++printed_;
        return true;
    }

    void refuse(std::string const& why)
    {
        out_.refuse(why);
        is_refused_ = true;
    }

    output const& out_;
    postgres::connection database_;
    std::size_t printed_{};
    bool is_refused_{};
};

core::derived_key key_in(std::string const& text)
{
    auto const key = core::parse_derived_key(text);
    if (!key)
        throw configuration_error{fmt::format(
            "'{}' is neither the number of a parked delivery nor KEY:STEP, such as order-1:charge-payment", text)};
    return *key;
}

int export_parked(choice_of_recordings const& what, output const& out)
{
    auto const& f = what.filter;
    bool const filtered = f.reason || f.key || f.step || (f.scope && what.which.empty());
    if (int{what.all} + int{filtered} + int{!what.which.empty()} != 1)
        throw configuration_error{"say which: one or more IDs or KEY:STEPs, or --key and other filters, or --all"};
    for (auto const& one : what.which) {  // before anything is printed
        if (!number_of_parked(one)) key_in(one);
        else if (f.scope) throw configuration_error{"--scope is for KEY:STEP: a number is that of one delivery"};
    }
    recorder prints{out};
    for (auto const& one : what.which) {
        if (auto const id = number_of_parked(one)) {
            prints.by_id(*id);
            continue;
        }
        auto const key = key_in(one);
        admin::parked_filter of_key;
        of_key.scope = f.scope;
        of_key.key = key.key;
        of_key.step = key.guarded_step();
        prints.all_that_match(of_key, fmt::format("nothing is parked here of {}", one));
    }
    if (what.which.empty()) prints.all_that_match(f, "no parked delivery here matches");
    return prints.end();
}

}  // namespace

std::optional<std::int64_t> number_of_parked(std::string_view text)
{
    std::int64_t id{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc{} || end != text.data() + text.size() || id < 1) return std::nullopt;
    return id;
}

void add_parked_export(CLI::App& parked, output& out, choice& chosen)
{
    auto* const command = parked.add_subcommand(
        "export", "print them, one JSON object a line, to be delivered again in a test; they stay parked");
    auto const what = std::make_shared<choice_of_recordings>();
    command->add_option("which", what->which, "their numbers, or KEY:STEP");
    add_filters(*command, what->filter);
    command->add_flag("--all", what->all, "all that are parked here");
    out.add_flag(*command);
    command->get_option("--json")->description("the lines are JSON anyway; say why one is refused as JSON too");
    command->callback([=, &out, &chosen] { chosen = [what, &out] { return export_parked(*what, out); }; });
}

}  // namespace skald::tools
