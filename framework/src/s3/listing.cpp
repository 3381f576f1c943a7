#include "s3/listing.hpp"

#include <array>
#include <charconv>
#include <stdexcept>

namespace skald::s3_detail {
namespace {

[[noreturn]] void refuse(std::string_view what)
{
    throw std::runtime_error{"its list of objects can't be read: " + std::string{what.substr(0, 100)}};
}

template <class Number>
Number number(std::string_view digits)
{
    Number read{};
    auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), read);
    if (error != std::errc{} || end != digits.data() + digits.size()) refuse(digits);
    return read;
}

// 2026-11-25T17:50:30.000Z
std::chrono::sys_seconds time_of(std::string_view text)
{
    constexpr std::size_t to_seconds = 19;
    if (text.size() < to_seconds + 1 || text[10] != 'T' || !text.ends_with('Z')) refuse(text);
    auto const part = [&](std::size_t from, std::size_t size) { return number<unsigned>(text.substr(from, size)); };
    std::chrono::year_month_day const day{std::chrono::year{static_cast<int>(part(0, 4))},
                                          std::chrono::month{part(5, 2)}, std::chrono::day{part(8, 2)}};
    if (!day.ok()) refuse(text);
    return std::chrono::sys_days{day} + std::chrono::hours{part(11, 2)} + std::chrono::minutes{part(14, 2)} +
           std::chrono::seconds{part(17, 2)};
}

// A token may have what XML writes otherwise; our names have nothing of it.
std::string unescaped(std::string_view text)
{
    constexpr std::array<std::pair<std::string_view, char>, 5> all{
        {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}}};
    std::string plain;
    while (!text.empty()) {
        std::size_t taken = 1;
        char c = text.front();
        for (auto const& [written, meant] : all)
            if (text.starts_with(written)) taken = written.size(), c = meant;
        plain += c;
        text.remove_prefix(taken);
    }
    return plain;
}

}  // namespace

std::string_view element(std::string_view xml, std::string_view name)
{
    auto const opening = std::string{'<'}.append(name).append(">");
    auto const from = xml.find(opening);
    if (from == std::string_view::npos) return {};
    auto const text = xml.substr(from + opening.size());
    auto const end = text.find(std::string{"</"}.append(name).append(">"));
    return end == std::string_view::npos ? std::string_view{} : text.substr(0, end);
}

listing parse_listing(std::string_view xml)
{
    if (xml.find("<ListBucketResult") == std::string_view::npos) refuse(xml);
    listing read;
    constexpr std::string_view opening = "<Contents>", closing = "</Contents>";
    auto rest = xml;
    for (auto at = rest.find(opening); at != std::string_view::npos; at = rest.find(opening)) {
        rest.remove_prefix(at);
        auto const end = rest.find(closing);
        if (end == std::string_view::npos) refuse(rest);
        auto const one = rest.substr(0, end);
        read.objects.push_back({unescaped(element(one, "Key")), time_of(element(one, "LastModified")),
                                number<std::uint64_t>(element(one, "Size"))});
        rest.remove_prefix(end);
    }
    if (element(xml, "IsTruncated") == "true") {
        read.next = unescaped(element(xml, "NextContinuationToken"));
        if (read.next.empty()) refuse("it goes on, and does not say where");
    }
    return read;
}

}  // namespace skald::s3_detail
