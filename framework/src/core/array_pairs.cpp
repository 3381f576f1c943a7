#include "core/array_pairs.hpp"

#include "core/json_values.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace skald::core {
namespace {

using nlohmann::json;
using list = json::array_t;

// Elements that are neither equal nor in their place are all compared with each other, up to this many comparisons.
constexpr std::size_t comparisons_max = 1'000'000;

bool names_identity(std::string_view name)
{
    return name == "id" || name == "uuid";
}

// The text of a member that can identify elements; nothing if the element has none.
std::optional<std::string> identity_in(json const& element, std::string const& name)
{
    if (!element.is_object()) return std::nullopt;
    auto const it = element.find(name);
    if (it == element.end()) return std::nullopt;
    if (it->is_string()) return '"' + it->get_ref<std::string const&>();
    return it->is_number_integer() ? std::optional{it->dump()} : std::nullopt;
}

using places = std::unordered_map<std::string, std::size_t>;

// The index of each value of that member. Nothing unless all elements have it, and no two the same.
std::optional<places> places_by(std::string const& name, list const& elements)
{
    places found;
    for (std::size_t i = 0; i < elements.size(); ++i) {
        auto value = identity_in(elements[i], name);
        if (!value || !found.emplace(*std::move(value), i).second) return std::nullopt;
    }
    return found;
}

class changed_pairs
{
public:
    changed_pairs(list const& before, list const& after)
        : before_{before}, after_{after}, is_taken_(before.size()), pairs_(after.size())
    {}

    element_pairs find() &&
    {
        pair_equal();
        if (left_ > 0) pair_by_member();
        if (left_ > 0) pair_between_neighbours();
        return std::move(pairs_);
    }

private:
    struct by_member
    {
        std::vector<std::pair<std::size_t, std::size_t>> pairs{};  // before, after
        std::size_t in_place{};
        bool operator==(by_member const&) const = default;
    };

    void pair(std::size_t i, std::size_t j)
    {
        is_taken_[i] = true;
        pairs_[j] = i;
    }

    // Equal elements match: first those in the same place, then the first with the first.
    void pair_equal()
    {
        for (std::size_t i = 0; i < std::min(before_.size(), after_.size()); ++i)
            if (is_same(before_[i], after_[i])) pair(i, i);
        std::unordered_map<std::size_t, std::vector<std::size_t>> left;  // by hash, the first at the back
        for (auto i = before_.size(); i-- > 0;)
            if (!is_taken_[i]) left[std::hash<json>{}(before_[i])].push_back(i);
        for (std::size_t j = 0; j < after_.size(); ++j) {
            if (pairs_[j]) continue;
            ++left_;
            auto const it = left.find(std::hash<json>{}(after_[j]));
            if (it == left.end() || it->second.empty() || !is_same(before_[it->second.back()], after_[j])) continue;
            pair(it->second.back(), j);
            it->second.pop_back();
            --left_;
        }
    }

    std::optional<by_member> paired_by(std::string const& name) const
    {
        auto const in_before = places_by(name, before_);
        if (!in_before || !places_by(name, after_)) return std::nullopt;
        by_member made;
        for (std::size_t j = 0; j < after_.size(); ++j) {
            if (pairs_[j]) continue;
            auto const it = in_before->find(*identity_in(after_[j], name));
            if (it == in_before->end() || is_taken_[it->second]) continue;
            made.pairs.emplace_back(it->second, j);
            made.in_place += it->second == j;
        }
        return made;
    }

    // By an identifying member: one named `id` or `uuid`, or one by which more than half of them are found again.
    void pair_by_member()
    {
        if (before_.empty() || !before_.front().is_object()) return;
        auto const left_before = static_cast<std::size_t>(std::ranges::count(is_taken_, false));
        auto const enough = std::min(left_, left_before) / 2 + 1;
        std::optional<by_member> best;
        bool is_ambiguous = false;
        for (auto const& [name, value] : before_.front().items()) {
            auto made = paired_by(name);
            if (!made) continue;
            if (names_identity(name)) {
                best = std::move(made);
                is_ambiguous = false;
                break;
            }
            if (made->pairs.size() < enough) continue;
            auto const rank = [](by_member const& m) { return std::pair{m.pairs.size(), m.in_place}; };
            is_ambiguous = best && rank(*best) == rank(*made) && !(*best == *made);
            if (!best || rank(*best) < rank(*made)) best = std::move(made);
        }
        if (!best || is_ambiguous) return;
        for (auto const& [i, j] : best->pairs) pair(i, j);
        left_ -= best->pairs.size();
    }

    // If there are as many between the same neighbours as before, each matches the one in its place, changed.
    void pair_between_neighbours()
    {
        for (std::size_t from = 0; from < after_.size();) {
            if (pairs_[from]) {
                ++from;
                continue;
            }
            auto to = from;
            while (to < after_.size() && !pairs_[to]) ++to;
            auto const first = from == 0 ? 0 : *pairs_[from - 1] + 1;
            auto const last = to == after_.size() ? before_.size() : *pairs_[to];
            bool const is_same_run =
                last == first + (to - from) && std::none_of(is_taken_.begin() + static_cast<std::ptrdiff_t>(first),
                                                            is_taken_.begin() + static_cast<std::ptrdiff_t>(last),
                                                            [](bool const taken) { return taken; });
            for (auto j = from; is_same_run && j < to; ++j)
                if (auto const i = first + (j - from); !is_another(before_[i], after_[j])) pair(i, j);
            from = to;
        }
    }

    list const& before_;
    list const& after_;
    std::vector<bool> is_taken_;  // of before
    element_pairs pairs_;
    std::size_t left_{};  // of after
};

// One for one in their places: what nearly every type does.
bool are_in_place(list const& known, list const& whole)
{
    return std::equal(known.begin(), known.end(), whole.begin(), whole.end(), may_be_part_of);
}

// In the same order, with some left out.
std::optional<element_pairs> in_order(list const& known, list const& whole)
{
    element_pairs pairs;
    std::size_t next = 0;
    for (auto const& one : known) {
        while (next < whole.size() && !may_be_part_of(one, whole[next])) ++next;
        if (next == whole.size()) return std::nullopt;
        pairs.emplace_back(next++);
    }
    return pairs;
}

}  // namespace

bool is_another(json const& before, json const& after)
{
    if (!before.is_object() || !after.is_object()) return false;
    for (auto const& [name, was] : before.items()) {
        if (!names_identity(name) || !after.contains(name)) continue;
        auto const& is = after[name];
        auto const says = [](json const& id) {
            return id.is_string() ? !id.get_ref<std::string const&>().empty() : id.is_number_integer() && id != 0;
        };
        if (says(was) && says(is) && !is_same(was, is)) return true;
    }
    return false;
}

element_pairs pair_changed(list const& before, list const& after)
{
    return changed_pairs{before, after}.find();
}

element_pairs pair_known(list const& known, list const& whole)
{
    element_pairs pairs(known.size());
    if (are_in_place(known, whole)) {
        for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = i;
        return pairs;
    }
    if (auto found = in_order(known, whole)) return *std::move(found);

    // Sorted by their type, or some are written differently from how they were received.
    std::vector<bool> is_taken(whole.size());
    bool have_moved = known.size() != whole.size();
    for (std::size_t i = 0; i < std::min(known.size(), whole.size()); ++i)
        if (may_be_part_of(known[i], whole[i])) {
            pairs[i] = i;
            is_taken[i] = true;
        }
    for (std::size_t i = 0; known.size() * whole.size() <= comparisons_max && i < known.size(); ++i) {
        if (pairs[i]) continue;
        for (std::size_t k = 0; k < whole.size() && !pairs[i]; ++k)
            if (!is_taken[k] && may_be_part_of(known[i], whole[k])) {
                pairs[i] = k;
                is_taken[k] = have_moved = true;
            }
    }
    for (std::size_t i = 0; !have_moved && i < known.size(); ++i) pairs[i] = i;
    return pairs;
}

}  // namespace skald::core
