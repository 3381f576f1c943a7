// Parameters of a request's query, as a handler gets them.
#include "core/text.hpp"
#include "http/target.hpp"

#include <skald/http_handler.hpp>

namespace skald::http::detail {

std::optional<std::string> query_text(std::string_view query, std::string const& name)
{
    auto const values = query_values(query, name);
    if (values.empty()) return {};
    // Which of two counts is decided differently by every proxy in front: none does.
    if (values.size() > 1) throw body_error{"the query has " + name + " more than once"};
    if (!values.front() || !core::is_storable_text(*values.front()))
        throw body_error{"the query's " + name + " is no percent-encoded UTF-8"};
    return values.front();
}

}  // namespace skald::http::detail
