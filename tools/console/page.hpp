// What all pages share: the frame, the navigation, and the pieces that occur on several of them.
#pragma once

#include "access.hpp"
#include "databases.hpp"
#include "markup.hpp"
#include "request.hpp"

#include <string>
#include <vector>

namespace skald::console {

inline constexpr int rows_of_a_page = 40;

/// Everything that a page is made from.
struct context
{
    request const& asked;
    person const& by;
    databases const& all;
};

/// `tab`: the entry of the navigation that is current; empty for none.
response page(context const& with, std::string const& title, std::string const& tab, markup const& body,
              int status = 200);

/// A page for someone who is not known yet, or on which nothing else can be said.
response bare_page(std::string const& title, markup const& body, int status);

/// The databases that did not answer, if any.
markup missing_note(std::vector<away> const& missing, std::string const& what_is_missing);

markup pill(std::string const& words, std::string const& tone);

/// A saga's page.
std::string saga_link(std::string const& home, std::string const& scope, std::string const& key);

/// Acts are offered to operators, for services whose operating address was given.
bool may_act(context const& with, std::string const& service);

/// Why not, in a sentence.
std::string why_not_act(context const& with, std::string const& service);

/// A hidden field of a form.
markup hidden(std::string_view name, std::string_view value);

/// <label>words <input></label>
markup field(std::string_view words, attributes const& input);

}  // namespace skald::console
