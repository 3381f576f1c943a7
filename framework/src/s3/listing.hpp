// What ListObjectsV2 answers. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace skald::s3_detail {

struct listed_object
{
    std::string name;
    std::chrono::sys_seconds changed;
    std::uint64_t size{};
};

struct listing
{
    std::vector<listed_object> objects;
    std::string next;  // what continues it; empty: that is all
};

/// Throws std::runtime_error for anything else than such an answer.
listing parse_listing(std::string_view xml);

/// The text of the first element of that name; empty if there is none.
std::string_view element(std::string_view xml, std::string_view name);

}  // namespace skald::s3_detail
