#include "faults.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gateway {
namespace {

constexpr std::array<std::pair<std::string_view, fault_kind>, 9> names{{
    {"down", fault_kind::down},
    {"error_before", fault_kind::error_before},
    {"die_before", fault_kind::die_before},
    {"slow", fault_kind::slow},
    {"declined", fault_kind::declined},
    {"error_after", fault_kind::error_after},
    {"hang_up_after", fault_kind::hang_up_after},
    {"answer_late", fault_kind::answer_late},
    {"die_after", fault_kind::die_after},
}};

// Who gives no time to `answer_late` means: until the client has gone.
constexpr std::chrono::milliseconds time_max{std::chrono::hours{1}};

bool takes_time(fault_kind kind)
{
    return kind == fault_kind::slow || kind == fault_kind::answer_late || kind == fault_kind::down;
}

std::chrono::milliseconds read_time(std::string_view text)
{
    long count{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    std::chrono::milliseconds const time{count};
    if (error != std::errc{} || end != text.data() + text.size() || count < 0 || time > time_max)
        throw unknown_fault{fmt::format("`{}` is no time: milliseconds, at most {}", text, time_max.count())};
    return time;
}

}  // namespace

fault read_fault(std::string_view text)
{
    auto const space = std::min(text.find(' '), text.size());
    auto const known = std::ranges::find(names, text.substr(0, space), &std::pair<std::string_view, fault_kind>::first);
    if (known == names.end()) throw unknown_fault{fmt::format("there is no fault `{}`", text)};
    if (space == text.size()) {
        if (known->second == fault_kind::slow) throw unknown_fault{"how slow? `slow MS`"};
        return {known->second, known->second == fault_kind::answer_late ? time_max : std::chrono::milliseconds{}};
    }
    if (!takes_time(known->second)) throw unknown_fault{fmt::format("`{}` takes no time", known->first)};
    return {known->second, read_time(text.substr(space + 1))};
}

void fault_plan::set(std::string const& body, clock::time_point now)
try {
    auto const asked = nlohmann::json::parse(body);
    auto const planned = asked.empty() ? fault{} : read_fault(asked.at("fault").get<std::string>());
    auto const share = asked.value("share", 1.0);
    if (share < 0 || share > 1) throw unknown_fault{"`share` is between 0 and 1"};
    std::optional<std::uint64_t> next;
    if (asked.contains("next")) next = asked["next"].get<std::uint64_t>();

    std::scoped_lock const lock{mutex_};
    planned_ = planned;
    next_ = next;
    share_ = share;
    ends_ =
        planned.kind == fault_kind::down && planned.time.count() > 0 ? now + planned.time : clock::time_point::max();
    random_.seed(1);
}
catch (nlohmann::json::exception const&) {
    throw unknown_fault{R"(it takes a JSON object such as {"fault": "die_after", "next": 1}, or {} to end it)"};
}

fault fault_plan::take(bool only_reads, clock::time_point now)
{
    std::scoped_lock const lock{mutex_};
    if (planned_.kind == fault_kind::none || (only_reads && planned_.kind != fault_kind::down)) return {};
    if (now >= ends_ || next_ == std::uint64_t{0}) return {};
    if (share_ < 1 && std::uniform_real_distribution<>{}(random_) >= share_) return {};
    if (next_) --*next_;
    return planned_;
}

}  // namespace gateway
