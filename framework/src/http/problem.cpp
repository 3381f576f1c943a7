#include "http/problem.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "http/status.hpp"

namespace skald::http {

response problem(int status, std::string_view type_suffix, std::string_view title, std::string_view detail)
{
    nlohmann::ordered_json body;
    body["type"] = type_suffix.empty() ? std::string{"about:blank"} : "/problems/" + std::string{type_suffix};
    body["title"] = title.empty() ? status_phrase(status) : title;
    body["status"] = status;
    if (!detail.empty()) body["detail"] = detail;

    return {.status = status,
            .content_type = "application/problem+json",
            .headers = {},
            .body = body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)};
}

response problem(int status, std::string_view detail)
{
    return problem(status, {}, {}, detail);
}

response with_retry_after(response answer, std::chrono::seconds wait)
{
    auto const seconds = std::max<std::chrono::seconds::rep>(wait.count(), 1);
    answer.headers.emplace_back("Retry-After", std::to_string(seconds));
    return answer;
}

}  // namespace skald::http
