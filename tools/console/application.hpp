// The console without its HTTP library: a request in, a response out.
#pragma once

#include "access.hpp"
#include "core/log.hpp"
#include "databases.hpp"
#include "page.hpp"
#include "request.hpp"
#include "settings.hpp"
#include "wrong_tokens.hpp"

#include <memory>

namespace skald::console {

/// Threads: any.
class application
{
public:
    /// Throws configuration_error.
    explicit application(settings const& given,
                         std::shared_ptr<core::logger> log = std::make_shared<core::silent_logger>());

    /// Never throws: what goes wrong is a page.
    response answer(request const& asked) const;

private:
    response route(request const& asked) const;
    response for_someone(request const& asked) const;
    response for_person(request const& asked, person const& by) const;
    response post(context const& with) const;
    response carry_out(context const& with) const;
    response sign_in(request const& asked) const;
    response ask_for_token(std::string const& complaint, int status) const;

    std::shared_ptr<core::logger> log_;
    access access_;
    wrong_tokens mutable wrong_tokens_;
    databases databases_;
    std::chrono::milliseconds waits_for_databases_;  // each page
};

}  // namespace skald::console
