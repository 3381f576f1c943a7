// Who is there, and what they may do: a viewer looks, an operator also acts. Who it is, a token, a proxy's header, or
// the machine says: without either of the first two only those on this machine get here (settings.hpp).
#pragma once

#include "core/fingerprint.hpp"
#include "core/signature.hpp"
#include "request.hpp"
#include "settings.hpp"

#include <optional>
#include <string>
#include <vector>

namespace skald::console {

enum class role { viewer, operator_ };

struct person
{
    std::string name;
    console::role role{};
    std::string form_key;  // what each form of theirs carries: no other site can know it
    bool is_signed_in{};   // by a cookie, which they can give up
};

/// Threads: any.
class access
{
public:
    /// Throws configuration_error if a line of the token file is not `viewer NAME TOKEN` or `operator NAME TOKEN`, or a
    /// token is too short to be one.
    explicit access(settings const& given);

    /// Nothing: they have to say who they are.
    std::optional<person> who(request const& asked) const;

    /// Whether a form was filled in on a page of ours, by that person: another site can have a browser send one.
    bool is_ours(request const& asked, person const& by) const;

    /// Whether a browser that says from which site a form comes says that it is this one.
    static bool is_from_here(request const& asked);

    /// Whether it has a token with it, right or wrong.
    bool brings_token(request const& asked) const;

    /// Whether the request's Host is one under which this console is known. On loopback every name leads here that a
    /// stranger's name server says: its page would be of the same origin (DNS rebinding).
    bool is_for_us(request const& asked) const;

    /// The cookie for a token, for the Set-Cookie header; nothing if there is no such token.
    std::optional<std::string> sign_in(request const& asked, std::string const& text) const;

    /// Whose token that is; empty: nobody's.
    std::string name_of(std::string const& text) const;

    static std::string sign_out();

    bool has_tokens() const { return !tokens_.empty(); }

private:
    struct token
    {
        console::role role;
        std::string name;
        core::fingerprint mark;  // of its text: all are compared, and each in the same time
    };

    token const* find(std::string const& text) const;
    person known(std::string const& name, console::role role) const;
    std::optional<person> who_by_cookie(std::string const& cookies) const;

    std::vector<token> tokens_;
    std::string user_header_;
    std::vector<std::string> operators_;
    std::string local_user_;
    bool is_on_loopback_;
    core::signing_key key_;  // of this process: all are signed out when it ends
};

}  // namespace skald::console
