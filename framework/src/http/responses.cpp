// Helpers that build the responses of handlers.
#include "http/problem.hpp"
#include "http/target.hpp"

#include <skald/http_handler.hpp>

namespace skald::http {

response json_response(int status, nlohmann::json const& body, header_list headers)
{
    return {status, "application/json", std::move(headers), body.dump()};
}

response problem_response(int status, std::string_view detail)
{
    return problem(status, detail);
}

std::string saga_path(std::string_view key)
{
    // Clients treat "." and ".." as relative path segments and remove them.
    if (key == "." || key == "..") return key == "." ? "/sagas/%2E" : "/sagas/%2E%2E";
    return "/sagas/" + percent_encode_segment(key);
}

}  // namespace skald::http
