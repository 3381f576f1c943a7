#include "s3/address.hpp"

#include <algorithm>
#include <stdexcept>

namespace skald::s3_detail {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string const& why)
{
    throw std::invalid_argument{"SKALD_BODY_STORE=s3:" + std::string{text} + ": " + why +
                                ": it looks like s3:https://host:port/bucket/prefix"};
}

// Nothing that would have to be written otherwise in a URL, so that every name is signed as it is sent.
bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
}

bool is_plain_text(std::string_view text, std::string_view also = {})
{
    return std::ranges::all_of(text, [&](char c) { return is_plain(c) || also.find(c) != std::string_view::npos; });
}

bool is_on_loopback(std::string_view host)
{
    auto const name = host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
    bool const is_number = name.find_first_not_of("0123456789.") == std::string_view::npos;
    return name == "localhost" || name == "[::1]" || (is_number && name.starts_with("127."));
}

}  // namespace

address parse_address(std::string_view text)
{
    std::string_view const scheme = text.starts_with("https://") ? "https://" : "http://";
    if (!text.starts_with(scheme)) refuse(text, "it begins with neither https:// nor http://");
    auto const rest = text.substr(scheme.size());
    auto const slash = rest.find('/');
    auto const host = rest.substr(0, slash);
    if (host.empty() || !is_plain_text(host, ":[]")) refuse(text, "its host is missing or malformed");
    if (scheme == "http://" && !is_on_loopback(host))
        refuse(text, "by http everybody on the way reads the bodies, so that it is for 127.0.0.1, [::1] and localhost");
    if (slash == std::string_view::npos) refuse(text, "it names no bucket");
    auto const path = rest.substr(slash + 1);
    auto const end = path.find('/');
    address read{std::string{scheme}.append(host), std::string{path.substr(0, end)}, {}};
    if (read.bucket.empty() || !is_plain_text(read.bucket)) refuse(text, "its bucket is missing or malformed");
    if (end != std::string_view::npos) read.prefix = path.substr(end + 1);
    if (!is_plain_text(read.prefix, "/") || read.prefix.starts_with('/') || read.prefix.find("//") != std::string::npos)
        refuse(text, "its prefix may have letters, digits and `-._`, with a `/` between them");
    if (!read.prefix.empty() && !read.prefix.ends_with('/')) read.prefix += '/';
    return read;
}

}  // namespace skald::s3_detail
