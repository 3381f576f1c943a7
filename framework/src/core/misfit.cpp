// Where JSON does not fit a type, declared in skald/detail/data.hpp: nlohmann's text names neither member nor place.
#include <skald/detail/data.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skald::detail {
namespace {

using nlohmann::json;

// Each look reads the whole of it again. A larger one is refused all the same, with the types and without the place.
constexpr std::size_t values_max = 512, looks_max = 64, text_max = 64UL * 1024;

struct wrong_type
{
    std::string wanted, came;
};

// "[json.exception.type_error.302] type must be string, but is number"; and of a member of what is no object,
// "[json.exception.type_error.304] cannot use at() with null"
std::optional<wrong_type> wrong_type_in(std::string_view text)
{
    for (std::string_view const use : {"cannot use at() with ", "cannot use value() with "})
        if (auto const at = text.find(use); at != std::string_view::npos) {
            std::string const came{text.substr(at + use.size())};
            return wrong_type{came == "object" ? "array" : "object", came};
        }
    constexpr std::string_view before{"type must be "}, between{", but is "};
    auto const at = text.find(before);
    if (at == std::string_view::npos) return {};
    text.remove_prefix(at + before.size());
    auto const end = text.find(between);
    if (end == std::string_view::npos) return {};
    return wrong_type{std::string{text.substr(0, end)}, std::string{text.substr(end + between.size())}};
}

struct candidate
{
    json* value;
    std::string path;
};

class search
{
public:
    search(json data, misreading read_again, wrong_type wrong)
        : data_(std::move(data)), read_again_{read_again}, wrong_{std::move(wrong)}
    {}

    /// The path of the value, if it is found: empty for the whole.
    std::optional<std::string> path()
    {
        if (!collect(data_, "") || candidates_.size() > looks_max) return {};
        for (auto& one : candidates_)
            if (is_it(one)) return one.path;
        return {};
    }

private:
    // False if it is too large.
    bool collect(json& value, std::string const& path)
    {
        if (++values_ > values_max) return false;
        if (value.is_string()) text_ += value.get_ref<std::string const&>().size();
        if (text_ > text_max) return false;
        if (value.type_name() == wrong_.came) candidates_.push_back({&value, path});
        if (value.is_object()) {
            for (auto const& [name, member] : value.items()) {
                text_ += name.size();
                if (!collect(member, path + '/' + name)) return false;
            }
        }
        else if (value.is_array()) {
            for (std::size_t i = 0; i < value.size(); ++i)
                if (!collect(value[i], path + '/' + std::to_string(i))) return false;
        }
        return true;
    }

    // With a value of a third type in its place, the complaint is about that type.
    bool is_it(candidate& one)
    {
        auto third = another();
        std::string const type = third.type_name();
        one.value->swap(third);
        auto const said = wrong_type_in(read_again_(data_));
        one.value->swap(third);
        return said && said->wanted == wrong_.wanted && said->came == type;
    }

    json another() const
    {
        for (auto const& one : {json::array(), json::object()})
            if (one.type_name() != wrong_.came && wrong_.wanted.find(one.type_name()) == std::string::npos) return one;
        return "";
    }

    json data_;
    misreading read_again_;
    wrong_type wrong_;
    std::vector<candidate> candidates_;
    std::size_t values_{}, text_{};
};

std::string with_article(std::string const& type)
{
    if (type == "null") return type;
    return (type == "array" || type == "object" ? "an " : "a ") + type;
}

}  // namespace

std::string explain_misfit(json const& received, std::string_view error, misreading read_again)
{
    if (auto const wrong = wrong_type_in(error)) {
        auto const path = search{received, read_again, *wrong}.path();
        auto const what = !path ? "a value" : path->empty() ? "it" : *path;
        return what + " is " + with_article(wrong->came) + " and must be " + with_article(wrong->wanted);
    }
    // "[json.exception.out_of_range.403] key 'city' not found"
    constexpr std::string_view before{"] key '"}, behind{"' not found"};
    auto const at = error.find(before), end = error.rfind(behind);
    if (at == std::string_view::npos || end == std::string_view::npos || end < at + before.size())
        return std::string{error};
    return std::string{"the member "}.append(error.substr(at + before.size(), end - at - before.size())) +
           " is missing";
}

}  // namespace skald::detail
