#include "http/problem.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "http/status.hpp"

namespace skald::http {
namespace {

constexpr std::string_view types_path = "/problems/";

response problem(int status, std::string_view type, std::string_view title, std::string_view detail)
{
    nlohmann::ordered_json body;
    body["type"] = type;
    body["title"] = title;
    body["status"] = status;
    if (!detail.empty()) body["detail"] = detail;

    return {.status = status,
            .content_type = "application/problem+json",
            .headers = {},
            .body = body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)};
}

}  // namespace

response problem(problem_type type, std::string_view detail)
{
    auto const& kind = kind_of(type);
    return problem(kind.status, std::string{types_path} + std::string{kind.name}, kind.title, detail);
}

response problem(int status, std::string_view detail)
{
    return problem(status, "about:blank", status_phrase(status), detail);
}

std::optional<response> describe_problem(std::string_view path)
{
    if (!path.starts_with(types_path)) return {};
    path.remove_prefix(types_path.size());
    auto const kind = std::ranges::find(problem_kinds, path, &problem_kind::name);
    if (kind == problem_kinds.end()) return {};
    return response{200,
                    "text/plain; charset=utf-8",
                    {},
                    std::to_string(kind->status) + ' ' + std::string{kind->title} + ".\n" + std::string{kind->remedy} +
                        '\n'};
}

response with_retry_after(response answer, std::chrono::seconds wait)
{
    auto const seconds = std::max<std::chrono::seconds::rep>(wait.count(), 1);
    answer.headers.emplace_back("Retry-After", std::to_string(seconds));
    return answer;
}

}  // namespace skald::http
