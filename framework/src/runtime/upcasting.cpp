#include "runtime/upcasting.hpp"

#include <exception>
#include <skald/detail/data.hpp>
#include <utility>

namespace skald::runtime {
namespace {

// Whether older readers can be sent `text`: its upcast says the same as `wanted`.
bool says_the_same(step_message const& m, std::string const& text, nlohmann::json const& wanted)
try {
    auto const read = upcast(m, text);
    return read && detail::parse_checked(*read) == wanted;
}
catch (std::exception const&) {  // of the upcast, too: what it can't take does not go on
    return false;
}

}  // namespace

std::optional<std::string> upcast(step_message const& m, std::string_view body)
{
    std::optional<std::string> made;
    for (auto const& one : m.hosted->upcasts)
        if (one.version > m.envelope.version) made = one.apply(made ? *made : body);
    return made;
}

std::unique_ptr<detail::step_run> read_for_run(step_message const& m, std::string_view body)
{
    auto const made = upcast(m, body);
    return m.hosted->step->read(made ? *made : body);
}

int write_back(step_message const& m, std::string_view received, std::string& data)
{
    auto const read = upcast(m, received);
    if (!read) return 0;
    if (data == *read) {
        data = received;
        return 0;
    }
    auto const wanted = detail::parse_checked(data);
    detail::received_data came{std::string{received}, detail::parse_checked(received), detail::parse_checked(*read)};
    auto old_form = detail::write_changes(came, wanted);
    if (says_the_same(m, old_form, wanted)) {
        data = std::move(old_form);
        return 0;
    }
    return m.hosted->upcasts.back().version;
}

}  // namespace skald::runtime
