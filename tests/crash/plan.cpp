#include "plan.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace skald::crash {
namespace {

unsigned count_in(hit_counts const& counts, std::size_t place, std::string const& point)
{
    auto const found = counts[place].find(point);
    return found == counts[place].end() ? 0 : found->second;
}

/// How many hits of a point the runs of the way's base cover already.
unsigned covered(std::map<std::string_view, hit_counts> const& seen, way const& goes, std::size_t place,
                 std::string const& point)
{
    auto const base = seen.find(goes.base);
    return base == seen.end() ? 0 : count_in(base->second, place, point);
}

/// A wait begins and ends with a COMMIT, and is taken in between; a signal is kept with one.
bool is_of_a_wait(std::string_view point)
{
    constexpr std::array<std::string_view, 7> points{"step.before_commit", "step.committed", "store.commit_sent",
                                                     "call.settled",       "wait.taken",     "signal.taking",
                                                     "signal.taken"};
    return std::ranges::find(points, point) != points.end();
}

/// Whether a run at this point is useful: deliveries come together in payments by design and elsewhere only by chance;
/// and for many orders, only the points of a step differ from what they are for one. With a gateway those of the calls
/// and of the transactions around them do.
bool is_worth_a_run(way const& goes, std::size_t place, std::string_view point)
{
    constexpr std::size_t payments = 1;
    if (goes.waits_ms > 0) return place == payments && is_of_a_wait(point);
    if (goes.companions == 0 && goes.gateway.empty()) return true;
    bool const is_of_a_call = !goes.gateway.empty() && (point.starts_with("call.") || point.starts_with("store."));
    return place == payments && (point.starts_with("step.") || is_of_a_call);
}

/// How many hits of a point are struck. An external step that is undone has four transactions.
unsigned hits_max(way const& goes)
{
    return goes.gateway.empty() ? 2 : 4;
}

}  // namespace

std::string plan::name() const
{
    if (point.empty()) return std::string{goes->name};
    return program() + '/' + std::string{goes->name} + '/' + std::string{places[place]};
}

way const* find_way(std::string_view name)
{
    auto const found = std::ranges::find(ways, name, &way::name);
    return found == ways.end() ? nullptr : &*found;
}

std::optional<plan> parse_plan(std::string_view name)
{
    plan read;
    if ((read.goes = find_way(name)) != nullptr) return read;
    auto const equals = name.find('='), at = name.find('@'), first = name.find('/'), last = name.rfind('/');
    if (equals > at || at > first || first >= last || last == name.npos) return std::nullopt;
    read.point = name.substr(0, equals);
    read.action = name.substr(equals + 1, at - equals - 1);
    auto const hit = name.substr(at + 1, first - at - 1);
    auto const [end, error] = std::from_chars(hit.data(), hit.data() + hit.size(), read.hit);
    read.goes = find_way(name.substr(first + 1, last - first - 1));
    auto const place = std::ranges::find(places, name.substr(last + 1));
    if (error != std::errc{} || end != hit.data() + hit.size() || read.goes == nullptr || place == places.end())
        return std::nullopt;
    read.place = static_cast<std::size_t>(place - places.begin());
    return read;
}

std::vector<plan> make_matrix(std::map<std::string_view, hit_counts> const& seen)
{
    std::vector<plan> matrix;
    for (auto const& goes : ways) {
        auto const counts = seen.find(goes.name);
        if (counts == seen.end()) continue;
        for (std::size_t place = 0; place < places.size(); ++place)
            for (auto const& [point, count] : counts->second[place]) {
                if (!is_worth_a_run(goes, place, point)) continue;
                for (auto hit = covered(seen, goes, place, point) + 1; hit <= std::min(count, hits_max(goes)); ++hit)
                    for (auto const action : actions) matrix.push_back({point, std::string{action}, hit, &goes, place});
            }
    }
    return matrix;
}

std::vector<plan> sample(std::vector<plan> const& matrix, std::set<std::string> const& always)
{
    std::map<std::string, std::map<std::string, std::size_t>> met;  // by point, by action
    std::vector<plan> some;
    for (auto const& one : matrix) {
        auto const action = std::ranges::find(actions, one.action) - actions.begin();
        auto const before = met[one.point][one.action]++;
        auto const turn = before % (actions.size() - 1) + 1;
        if (action == 0 || before == 0 || turn == static_cast<std::size_t>(action) || always.contains(one.name()))
            some.push_back(one);
    }
    return some;
}

}  // namespace skald::crash
