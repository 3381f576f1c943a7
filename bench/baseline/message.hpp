// A message as both ends of the baseline hold it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench_baseline {

struct message
{
    std::string destination;  // the routing key
    std::string id;
    std::string type;
    std::vector<std::pair<std::string, std::string>> headers;  // those that are text
    std::string body;

    /// Empty where there is none.
    std::string_view header(std::string_view name) const
    {
        auto const found = std::ranges::find(headers, name, [](auto const& h) -> std::string_view { return h.first; });
        return found == headers.end() ? std::string_view{} : found->second;
    }
};

}  // namespace bench_baseline
