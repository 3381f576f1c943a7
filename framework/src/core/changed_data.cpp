// Writes a step's changes into the received data: what they do not touch keeps its bytes. Declared in
// skald/detail/data.hpp and upcast.hpp; the rules are those of docs/data.md.
#include "core/array_pairs.hpp"
#include "core/json_values.hpp"

#include <skald/upcast.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald::detail {
namespace {

using nlohmann::json;

// --- Finding the parts of a text that parse_checked() has accepted: it is JSON, and nothing is checked again. ---

constexpr std::string_view space = " \t\r\n";

void skip_space(std::string_view& text)
{
    text.remove_prefix(std::min(text.find_first_not_of(space), text.size()));
}

std::size_t end_of_string(std::string_view text)
{
    std::size_t at = 1;
    while (text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    return at + 1;
}

std::size_t end_of_value(std::string_view text)
{
    if (text.front() == '"') return end_of_string(text);
    if (text.front() != '{' && text.front() != '[') return std::min(text.find_first_of(",]} \t\r\n"), text.size());
    std::size_t levels = 0;
    for (std::size_t at = 0;;) {
        at = text.find_first_of("\"{}[]", at);
        if (text[at] == '"') {
            at += end_of_string(text.substr(at));
            continue;
        }
        if (text[at] == '{' || text[at] == '[') ++levels;
        else if (--levels == 0) return at + 1;
        ++at;
    }
}

std::string_view take(std::string_view& text, std::size_t size)
{
    auto const taken = text.substr(0, size);
    text.remove_prefix(size);
    return taken;
}

std::string_view value_in(std::string_view text)
{
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    skip_space(text);
    return text.substr(0, end_of_value(text));
}

struct member_text
{
    std::string name;
    std::string_view name_text;  // with its quotation marks
    std::string_view value;
};

std::string name_of(std::string_view name_text)
{
    auto const inside = name_text.substr(1, name_text.size() - 2);
    if (inside.find('\\') == std::string_view::npos) return std::string{inside};
    return json::parse(name_text).get<std::string>();
}

std::vector<member_text> members_of(std::string_view object)
{
    std::vector<member_text> members;
    object.remove_prefix(1);
    for (skip_space(object); object.front() != '}'; skip_space(object)) {
        if (object.front() == ',') {
            object.remove_prefix(1);
            skip_space(object);
        }
        auto const name = take(object, end_of_string(object));
        object.remove_prefix(object.find(':') + 1);
        skip_space(object);
        members.push_back({name_of(name), name, take(object, end_of_value(object))});
    }
    return members;
}

std::vector<std::string_view> elements_of(std::string_view array)
{
    std::vector<std::string_view> elements;
    array.remove_prefix(1);
    for (skip_space(array); array.front() != ']'; skip_space(array)) {
        if (array.front() == ',') {
            array.remove_prefix(1);
            skip_space(array);
        }
        elements.push_back(take(array, end_of_value(array)));
    }
    return elements;
}

// --- Which objects have been replaced. ---

bool is_tag(std::string_view name)
{
    name.remove_prefix(std::min(name.find_first_not_of("@$_"), name.size()));
    return name == "type" || name == "kind" || name == "tag";
}

// With another id, or another alternative of a tagged variant: nothing of the old object is carried over. A variant has
// another tag and other member names; or no known member is as it was, and some text and member names have changed.
bool is_replaced(json const& before, json const& after)
{
    if (core::is_another(before, after)) return true;
    bool tag_changed = false;
    bool text_changed = false;
    bool something_remains = false;
    std::size_t common = 0;
    for (auto const& [name, was] : before.items()) {
        auto const it = after.find(name);
        if (it == after.end()) continue;
        ++common;
        if (core::is_same(was, *it)) something_remains = true;
        else if (was.is_string() && it->is_string()) text_changed = true;
        if ((was.is_string() || was.is_number_integer()) && is_tag(name) && !core::is_same(was, *it))
            tag_changed = true;
    }
    bool const some_went = before.size() > common;
    bool const some_came = after.size() > common;
    return (tag_changed && (some_went || some_came)) || (text_changed && !something_remains && some_went && some_came);
}

// Elements that their type left out altogether, by the place of the remaining one that they follow, from 1; 0: in
// front. One that equals an element that the type did read was left out as its duplicate, which a step may remove.
std::vector<std::vector<std::size_t>> others_behind(json::array_t const& known, json::array_t const& whole,
                                                    core::element_pairs const& came_of,
                                                    std::vector<bool> const& remains)
{
    std::vector<std::vector<std::size_t>> others(whole.size() + 1);
    if (known.size() >= whole.size()) return others;
    std::vector<bool> is_known(whole.size());
    for (auto const& k : came_of)
        if (k) is_known[*k] = true;
    std::size_t place = 0;
    for (std::size_t k = 0; k < whole.size(); ++k) {
        if (remains[k]) place = k + 1;
        else if (!is_known[k] &&
                 std::ranges::none_of(known, [&](json const& one) { return core::may_be_part_of(one, whole[k]); }))
            others[place].push_back(k);
    }
    return others;
}

// --- Writing. ---

class writer
{
public:
    explicit writer(json const& all_after) : all_after_{all_after} {}

    // The root is the saga's data, and never counts as replaced.
    std::string write_all(json& whole, std::string_view text, json const& before)
    {
        if (whole.is_object() && before.is_object() && all_after_.is_object())
            write_members(whole, text, before, all_after_);
        else write(whole, text, before, all_after_);
        return std::move(out_);
    }

private:
    void write(json& whole, std::string_view text, json const& before, json const& after)
    {
        if (core::is_same(before, after)) out_ += text;
        else if (whole.is_object() && before.is_object() && after.is_object() && !is_replaced(before, after))
            write_members(whole, text, before, after);
        else if (whole.is_array() && before.is_array() && after.is_array()) write_elements(whole, text, before, after);
        else whole = write_new(after);
    }

    json write_new(json const& value)
    {
        if (auto const* const found = core::find_not_finite(value)) core::refuse_not_finite(all_after_, *found);
        auto written = value;
        out_ += write_checked(written);
        return written;
    }

    void separate(bool& is_first)
    {
        if (!is_first) out_ += ',';
        is_first = false;
    }

    void write_members(json& whole, std::string_view text, json const& before, json const& after)
    {
        bool is_first = true;
        out_ += '{';
        for (auto const& [name, name_text, value] : members_of(text)) {
            auto const was = before.find(name);
            auto const is = after.find(name);
            if (was != before.end() && is == after.end()) {
                whole.erase(name);
                continue;
            }
            separate(is_first);
            out_ += name_text;
            out_ += ':';
            if (is == after.end()) out_ += value;
            else if (was != before.end()) write(whole[name], value, *was, *is);
            else whole[name] = write_new(*is);
        }
        for (auto const& [name, value] : after.items()) {
            if (whole.contains(name)) continue;
            if (auto const was = before.find(name); was != before.end() && core::is_same(*was, value)) continue;
            separate(is_first);
            auto written_name = json(name);
            out_ += write_checked(written_name);
            out_ += ':';
            whole[name] = write_new(value);
        }
        out_ += '}';
    }

    void write_elements(json& whole, std::string_view text, json const& before, json const& after)
    {
        auto const& were = before.get_ref<json::array_t const&>();
        auto const& are = after.get_ref<json::array_t const&>();
        auto& came = whole.get_ref<json::array_t&>();
        auto const texts = elements_of(text);
        auto const before_of = core::pair_changed(were, are);
        auto const came_of = core::pair_known(were, came);
        std::vector<bool> remains(came.size());
        for (auto const& i : before_of)
            if (i && came_of[*i]) remains[*came_of[*i]] = true;
        auto const others = others_behind(were, came, came_of, remains);

        json::array_t made;
        bool is_first = true;
        out_ += '[';
        auto const keep_behind = [&](std::size_t place) {
            for (auto const k : others[place]) {
                separate(is_first);
                out_ += texts[k];
                made.push_back(std::move(came[k]));
            }
        };
        keep_behind(0);
        for (std::size_t j = 0; j < are.size(); ++j) {
            separate(is_first);
            auto const k = before_of[j] ? came_of[*before_of[j]] : std::nullopt;
            if (!k) {
                made.push_back(write_new(are[j]));
                continue;
            }
            made.push_back(std::move(came[*k]));
            write(made.back(), texts[*k], were[*before_of[j]], are[j]);
            keep_behind(*k + 1);
        }
        out_ += ']';
        came = std::move(made);
    }

    json const& all_after_;
    std::string out_{};
};

// What is an object, or an array of as many, in both.
void keep_received(json const& received, json& known)
{
    if (received.is_object() && known.is_object()) {
        for (auto it = known.begin(); it != known.end();) {
            auto const whole = received.find(it.key());
            if (whole == received.end()) {
                it = known.erase(it);
                continue;
            }
            keep_received(*whole, *it);
            ++it;
        }
    }
    else if (received.is_array() && known.is_array() && received.size() == known.size()) {
        for (std::size_t i = 0; i < received.size(); ++i) keep_received(received[i], known[i]);
    }
}

}  // namespace

void forget_defaults(received_data& came)
{
    keep_received(came.whole, came.known);
}

std::string write_changes(received_data& came, json const& after)
{
    check_depth(after);
    return writer{after}.write_all(came.whole, value_in(came.body), came.known);
}

}  // namespace skald::detail
