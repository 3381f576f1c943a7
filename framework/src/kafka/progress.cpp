#include "kafka/progress.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace skald::kafka_detail {
namespace {

// Bits as hexadecimal digits would need 4,096 bytes for a whole window; six to a character leave room.
constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr int bits_of_digit = 6;
constexpr std::size_t text_bytes_max = 4'000;
constexpr std::string_view format = "1";

std::optional<std::int64_t> number(std::string_view text)
{
    std::int64_t value{};
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
    return value;
}

// What is before the separator; it and the separator are taken off.
std::string_view cut(std::string_view& text, char separator)
{
    auto const at = std::min(text.find(separator), text.size());
    auto const part = text.substr(0, at);
    text.remove_prefix(std::min(at + 1, text.size()));
    return part;
}

}  // namespace

progress::progress(std::int64_t from, std::string_view text) : next_{from}
{
    if (cut(text, ';') != format) return;
    read_settled(cut(text, ';'));
    read_returned(text);
}

void progress::read_settled(std::string_view text)
{
    auto offset = next_;
    for (auto const digit : text) {
        auto const bits = digits.find(digit);
        if (bits == std::string_view::npos) return;
        for (int i = 0; i < bits_of_digit; ++i, ++offset)
            if ((bits >> i & 1U) != 0) settled_.insert(offset);
    }
}

// Runs `first-last:times`, counted from the head.
void progress::read_returned(std::string_view text)
{
    while (!text.empty()) {
        auto run = cut(text, ',');
        auto const first = number(cut(run, '-'));
        auto const last = number(cut(run, ':'));
        auto const times = number(run);
        if (!first || !last || !times || *first > *last || *last >= window || *times > 1'000'000) return;
        for (auto i = *first; i <= *last; ++i)
            if (!settled_.contains(next_ + i)) returned_[next_ + i] = static_cast<int>(*times);
    }
}

std::int64_t progress::head() const
{
    return out_.empty() ? next_ : *out_.begin();
}

int progress::returns(std::int64_t offset) const
{
    auto const found = returned_.find(offset);
    return found == returned_.end() ? 0 : found->second;
}

// Offsets come in order; those that are missing between are no records of anybody's.
void progress::hand_out(std::int64_t offset)
{
    if (offset < next_) return;
    out_.insert(offset);
    next_ = offset + 1;
    forget_settled();
}

void progress::pass(std::int64_t offset)
{
    if (offset < next_) return;
    settled_.insert(offset);
    next_ = offset + 1;
    forget_settled();
}

void progress::pass_gap(std::int64_t offset)
{
    if (!out_.empty() || offset <= next_) return;
    next_ = offset;
    forget_settled();
}

void progress::settle(std::int64_t offset)
{
    if (out_.erase(offset) > 0) settled_.insert(offset);
    returned_.erase(offset);
    forget_settled();
}

void progress::forget_settled()
{
    auto const first = head();
    settled_.erase(settled_.begin(), settled_.lower_bound(first));
    // Never handed out, so never there.
    returned_.erase(returned_.begin(), returned_.lower_bound(first));
}

std::string progress::text(std::int64_t ahead) const
{
    auto made = std::string{format} + ";" + settled_text() + ";";
    return made + returned_text(ahead, text_bytes_max - made.size());
}

std::string progress::settled_text() const
{
    if (settled_.empty()) return {};
    auto const first = head();
    auto const size = static_cast<std::size_t>(*settled_.rbegin() - first) / bits_of_digit + 1;
    std::vector<unsigned> bits(size);
    for (auto const one : settled_) {
        auto const at = static_cast<std::size_t>(one - first);
        bits[at / bits_of_digit] |= 1U << at % bits_of_digit;
    }
    std::string made;
    for (auto const one : bits) made += digits[one];
    return made;
}

// Those that do not fit are counted less often than they came: they are far from the head, and will be nearer.
std::string progress::returned_text(std::int64_t ahead, std::size_t bytes_max) const
{
    auto const first = head();
    std::map<std::int64_t, int> times = returned_;
    for (auto const one : out_)
        if (!untouched_.contains(one)) ++times[one];
    for (auto one = next_; one < next_ + ahead && returns(one) < suspect_after; ++one) ++times[one];
    std::string made;
    for (auto one = times.begin(); one != times.end();) {
        auto const begin = one;
        auto last = one->first;
        for (; one != times.end() && one->second == begin->second && one->first <= last + 1; ++one) last = one->first;
        auto const run = (made.empty() ? "" : ",") + std::to_string(begin->first - first) + "-" +
                         std::to_string(last - first) + ":" + std::to_string(begin->second);
        if (made.size() + run.size() > bytes_max) break;
        made += run;
    }
    return made;
}

}  // namespace skald::kafka_detail
